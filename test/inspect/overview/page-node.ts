/** A node in memory whose agent answers the live page: objects in, a mode writes into a fake kernel, a flight recorder beside it. */
import { Overview } from '../../../src/agent/questions/overview.ts';
import { FAMILIES } from '../../../src/base/address.ts';
import { configFromFlags } from '../../../src/config/from-flags.ts';
import type { Status } from '../../../src/inspect/wire/status.ts';
import type { WatchStatus } from '../../../src/proxy/model/events.ts';
import { defaultSettings } from '../../helpers/proxy/rig.ts';
import { RecordedRig, type RecordedRigOptions } from '../history/recorded-rig.ts';

export interface PageNode {
  readonly recorded: RecordedRig;
  readonly overview: Overview;
  /** Why the agent is not healthy. */
  readonly reasons: string[];
}

/** A node called `node` in iptables mode. */
export function pageNode(options: RecordedRigOptions = {}): PageNode {
  const recorded = new RecordedRig(options);
  const { rig, clock, recorder, ledger } = recorded;
  const { mode, model, loop } = rig;
  const config = configFromFlags({ 'hostname-override': 'node', 'proxy-mode': 'iptables', manifests: '/tmp/m' });
  const settings = { mode: 'iptables', families: FAMILIES.map(defaultSettings) } as const;
  const onNode = { families: FAMILIES, recorded: { settings, interfaces: [] } };
  const reasons: string[] = [];
  const health = (): Status['health'] => {
    const healthy = reasons.length === 0;
    return { live: true, ready: healthy, healthy, reasons };
  };
  const startedAt = clock.wall();
  const overview = new Overview({
    who: 'agent',
    clock,
    startedAt,
    config: () => config,
    feed: () => ({ cache: rig.cache, ledger, watches: (): readonly WatchStatus[] => [] }),
    agent: () => ({ mode, model, loop, onNode }),
    health,
    recordings: { recorder, fault: undefined },
  });
  return { recorded, overview, reasons };
}
