/** The parts of an agent over kernels in memory, from the settings in a recording. */

import type { Clock } from '../../base/clock.ts';
import { Cache } from '../../cluster/cache/cache.ts';
import type { CommandRunner } from '../../kernel/commands.ts';
import { IptablesTools } from '../../kernel/iptables-tools.ts';
import type { IpvsKernel } from '../../kernel/ipvs-kernel.ts';
import type { NftKernel } from '../../kernel/nftables-kernel.ts';
import type { Sysctls } from '../../kernel/sysctls.ts';
import { Flows } from '../../proxy/model/flows.ts';
import { ProxyModel } from '../../proxy/model/proxy-model.ts';
import { iptablesMode } from '../../proxy/modes/iptables/index.ts';
import { ipvsMode } from '../../proxy/modes/ipvs/index.ts';
import type { Mode } from '../../proxy/modes/mode.ts';
import { nftablesMode } from '../../proxy/modes/nftables/index.ts';
import type { Plan } from '../../proxy/reconcile/step.ts';
import { SyncLoop } from '../../proxy/sync/loop.ts';
import type { RecordedParts } from '../history/shapes.ts';
import { rulesKernel } from './rules-kernel.ts';
import { serversKernel } from './servers-kernel.ts';
import { tableKernel } from './table-kernel.ts';

/** The kernels that a replay writes to. */
export interface ReplayKernels {
  readonly commands: CommandRunner;
  readonly nft: NftKernel;
  readonly ipvs: IpvsKernel;
  readonly sysctls: Sysctls;
}

/** Kernels that take every write and keep it. */
export function believingKernels({ interfaces }: Pick<RecordedParts, 'interfaces'>): ReplayKernels {
  const values = new Map<string, string>();
  return {
    commands: rulesKernel(),
    nft: tableKernel(),
    ipvs: serversKernel(interfaces),
    sysctls: {
      read: (name) => Promise.resolve(values.get(name) ?? '0'),
      write(name, value) {
        values.set(name, value);
        return Promise.resolve();
      },
    },
  };
}

export interface ReplayedParts {
  readonly cache: Cache;
  readonly model: ProxyModel;
  readonly mode: Mode;
  readonly loop: SyncLoop;
}

export interface PartsInput {
  readonly recorded: RecordedParts;
  readonly kernels: ReplayKernels;
  readonly clock: Clock;
  /** The mode's clock. */
  readonly modeTime: () => number;
  readonly onPlan: (plan: Plan) => void;
}

export function replayedParts({ recorded, kernels, clock, modeTime, onPlan }: PartsInput): ReplayedParts {
  const cache = new Cache();
  const { nodeName, servesExternalIPs } = recorded;
  const mode = modeOf(recorded.settings, kernels, modeTime);
  const model = new ProxyModel({ nodeName, zone: '' }, { servesExternalIPs });
  const ignored = () => undefined;
  const loop = new SyncLoop({
    ...{ cache, model, mode, clock, nodeName, onPlan },
    flows: new Flows((at) => model.frontend(at)),
    // Refused Services are tried again at each sync: these kernels refuse nothing that does not change.
    retry: 0,
    onFault: ignored,
    onUnread: ignored,
  });
  return { cache, model, mode, loop };
}

function modeOf(settings: RecordedParts['settings'], kernels: ReplayKernels, now: () => number): Mode {
  const { commands, sysctls } = kernels;
  const withTools = <S extends { readonly family: 'IPv4' | 'IPv6' }>(families: readonly S[]) =>
    families.map((one) => ({ settings: one, tools: new IptablesTools(commands, one.family, 'auto'), sysctls }));
  if (settings.mode === 'iptables') return iptablesMode(withTools(settings.families));
  if (settings.mode === 'nftables') {
    const families = settings.families.map((one) => ({ ...one, serviceCidrs: one.serviceCidrs ?? undefined }));
    return nftablesMode({ families, kernel: kernels.nft, now });
  }
  const { node, kernelSettings } = settings;
  return ipvsMode({
    families: withTools(settings.families),
    kernel: kernels.ipvs,
    questions: { ask: (question) => question(kernels.ipvs) },
    sysctls,
    node,
    wantedSettings: new Map(kernelSettings),
  });
}
