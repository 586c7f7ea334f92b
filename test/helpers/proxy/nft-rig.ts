/** nftables mode over a kernel in memory. */
import assert from 'node:assert/strict';
import { FAMILIES, type Family } from '../../../src/base/address.ts';
import { numberWord } from '../../../src/proxy/modes/nft-table/element-bytes.ts';
import type { NftablesSettings } from '../../../src/proxy/modes/nftables/chains.ts';
import { nftablesMode } from '../../../src/proxy/modes/nftables/index.ts';
import { LOCAL, SETS } from '../../../src/proxy/modes/nftables/table-layout.ts';
import type { Plan } from '../../../src/proxy/reconcile/step.ts';
import { FakeIptables } from '../kernel/fake-iptables.ts';
import { FakeNft } from '../kernel/fake-nft.ts';
import { defaultSettings, type GrowingClock, Rig } from './rig.ts';

export interface NftRigOptions {
  readonly settings?: (family: Family) => Partial<NftablesSettings>;
  readonly families?: readonly Family[];
  /** Uses this kernel, as a new agent does after a restart. */
  readonly kernel?: FakeNft;
  readonly retry?: number;
  /** Milliseconds for which an unused chain stays. */
  readonly keep?: number;
  /** The mode's clock. */
  readonly now?: () => number;
  readonly onPlan?: (plan: Plan) => void;
  readonly growing?: GrowingClock;
}

export interface NftRig {
  readonly kernel: FakeNft;
  readonly rig: Rig;
}

export function nftSettings(family: Family): NftablesSettings {
  const { localhostNodePorts: _, ...settings } = defaultSettings(family);
  return { ...settings, serviceCidrs: [], countsConnections: false };
}

/** Checks after every transaction that no frontend leads to a missing endpoint. */
export function nftRig({
  settings,
  families = FAMILIES,
  kernel = new FakeNft(),
  retry = 0,
  keep = 0,
  now = () => performance.now(),
  onPlan = () => undefined,
  growing,
}: NftRigOptions = {}): NftRig {
  kernel.options = { ...kernel.options, onCommit: (family) => assertDense(kernel, family) };
  const mode = nftablesMode({
    families: families.map((family) => ({ ...nftSettings(family), ...settings?.(family) })),
    kernel,
    keep,
    now,
  });
  return { kernel, rig: new Rig({ commands: new FakeIptables(), mode, retry, onPlan, growing }) };
}

const FRONTENDS = [
  { frontends: SETS.services.name, endpoints: SETS.endpoints.name },
  { frontends: SETS.nodePorts.name, endpoints: SETS.nodePortEndpoints.name },
] as const;

/** Checks that each frontend has exactly the endpoint numbers among which its chain chooses. */
export function assertDense(kernel: FakeNft, family: Family): void {
  const table = kernel.tables.get(family);
  if (table === undefined) return;
  for (const { frontends, endpoints } of FRONTENDS) {
    const left: Set<string> = new Set(table.sets.get(endpoints)?.elements.keys());
    for (const { key, data } of table.sets.get(frontends)?.elements.values() ?? []) {
      for (const number of numbersOf(data)) {
        assert.ok(left.delete(key + numberWord(number)), `${family} ${data}: there is no endpoint ${number}`);
      }
    }
    assert.deepEqual([...left], [], `${family} ${endpoints}: endpoints to which nothing leads`);
  }
}

/** `goto external-local-of-3-1` → 0, 1, 2, and the first of policy Local. */
function numbersOf(verdict: string): number[] {
  if (/sticky|local-policy/.test(verdict)) return [];
  const from = (first: number, count: string | undefined) => Array.from({ length: Number(count) }, (_, i) => first + i);
  const both = /-local(?:-by-[a-z-]+)?-of-(\d+)-(\d+)$/.exec(verdict);
  if (both !== null) return [...from(0, both[1]), ...from(LOCAL, both[2])];
  const [, count] = /-(\d+)$/.exec(verdict) ?? [];
  return from(/^goto (?:limit-[a-z0-9]+-to-)?cluster-ip-local-/.test(verdict) ? LOCAL : 0, count);
}
