/** A node in memory that is asked where packets go: objects in, a mode writes into a fake kernel, and the kernel is explained. */

import { type Address, type Cidr, FAMILIES, type Family, familyOf, hostCidr } from '../../../../src/base/address.ts';
import { explain } from '../../../../src/inspect/explain/explain.ts';
import type { ExplainFacts, FamilyFacts, FormerOwner, KnownPod } from '../../../../src/inspect/explain/facts.ts';
import type { Explanation } from '../../../../src/inspect/wire/explanation.ts';
import type { ModeName } from '../../../../src/proxy/model/modes.ts';
import type { ObjectKind, ServiceKey } from '../../../../src/proxy/model/objects.ts';
import type { Memories } from '../../../../src/proxy/modes/inspection.ts';
import type { LocalDetector } from '../../../../src/proxy/modes/netfilter/local-traffic.ts';
import type { FamilyView } from '../../../../src/proxy/modes/view.ts';
import { FakeIptables } from '../../kernel/fake-iptables.ts';
import { ipvsRig } from '../../proxy/ipvs-rig.ts';
import { nftRig } from '../../proxy/nft-rig.ts';
import { Rig } from '../../proxy/rig.ts';

export const MODES: readonly ModeName[] = ['iptables', 'nftables', 'ipvs'];

export interface NodeOptions {
  readonly localDetector?: LocalDetector;
  readonly masqueradeAll?: boolean;
  readonly nodePortAddresses?: readonly Address[];
  /** Of devices of other programs, beside the node's two of each family. */
  readonly otherAddresses?: readonly Address[];
  readonly refuse?: (line: string) => boolean;
}

/** What is known beside the kernel. */
export interface Known {
  /** Seconds that a memory of session affinity still has for the client. */
  readonly remembered?: (memories: Memories) => ReadonlyMap<string, number>;
  readonly formerOwner?: FormerOwner;
  readonly pods?: Readonly<Record<string, KnownPod>>;
  /** Instead of what the kernel has. */
  readonly stands?: (family: Family) => FamilyView;
  readonly more?: Partial<ExplainFacts>;
}

export interface AskedNode {
  readonly rig: Rig;
  /** What the mode believes to be in the kernel. */
  readonly view: (family: Family) => FamilyView;
  /** Write all changes, and remember the Services that the kernel refuses. */
  sync(): Promise<void>;
  facts(known?: Known): ExplainFacts;
  ask(from: string, to: string, known?: Known & { readonly rules?: boolean }): Promise<Explanation>;
}

const RANGES: Readonly<Record<Family, Cidr>> = { IPv4: '10.244.0.0/16' as Cidr, IPv6: 'fd00:244::/32' as Cidr };
const OWN = ['192.168.77.2', '10.244.1.1', 'fd00:77::2', 'fd00:244:1::1'] as Address[];
const AT = '2026-01-02T12:03:04.000Z';

/** A node called `node` in zone `zone-a`, with the addresses 192.168.77.2 and fd00:77::2, and Pods in 10.244.0.0/16 and fd00:244::/32. */
export function askedNode(mode: ModeName, options: NodeOptions = {}): AskedNode {
  const own = (family: Family) => OWN.filter((address) => familyOf(address) === family);
  const settings = (family: Family) => ({
    localDetector: options.localDetector ?? ({ kind: 'cidr', cidr: RANGES[family] } as const),
    masqueradeAll: options.masqueradeAll ?? false,
    nodeAddresses: own(family).slice(0, 1),
  });
  const rig = RIGS[mode](settings, options);
  const refused = new Map<ServiceKey, string>();
  const view = (family: Family) => viewOf(rig.mode.inspection.believed(), family);
  const sync = async () => {
    refused.clear();
    for (const { owner, cause } of (await rig.sync()).failed) if (owner !== undefined) refused.set(owner, cause);
  };
  const familyFacts = (family: Family, { stands = view }: Known): FamilyFacts => ({
    ...settings(family),
    family,
    installed: stands(family),
    desired: viewOf(rig.mode.inspection.desired(), family),
    localAddresses: new Set([...own(family), ...(options.otherAddresses ?? [])]),
    nodePortAddresses: options.nodePortAddresses?.filter((each) => familyOf(each) === family) ?? own(family),
    localhostNodePorts: mode === 'iptables' && family === 'IPv4',
    serviceCidrs: [],
  });
  const facts = (known: Known = {}): ExplainFacts => ({
    by: { who: 'agent', mode, node: 'node', version: '0.0.0', at: AT },
    objects: rig.cache,
    model: rig.model,
    faultsOf: (kind: ObjectKind, key: string) => [
      ...rig.cache.faults.of(`${kind === 'Service' ? 'service' : 'slice'} ${key}`),
      ...(kind === 'Service' ? rig.loop.faults.of(key) : []),
    ],
    faults: () => [...rig.cache.faults.all, ...rig.loop.faults.all],
    node: { name: 'node', zone: rig.cache.node?.zone ?? '', podCIDRs: [] },
    families: new Map(FAMILIES.map((family) => [family, familyFacts(family, known)])),
    remembered: async (_family, memories) => known.remembered?.(memories) ?? new Map(),
    ...(known.formerOwner === undefined ? {} : { formerOwnerOf: () => known.formerOwner }),
    ...(known.pods === undefined ? {} : { pod: (key: string) => known.pods?.[key] }),
    refused,
    isPending: () => false,
    relay: { addresses: [], failures: new Map() },
    lastWriter: undefined,
    yieldToEventLoop: async () => undefined,
    ...known.more,
  });
  return {
    rig,
    view,
    sync,
    facts,
    ask: (from, to, known) => explain({ from, to, rules: known?.rules === true }, facts(known)),
  };
}

type Settings = (family: Family) => Pick<FamilyFacts, 'localDetector' | 'masqueradeAll' | 'nodeAddresses'>;

const RIGS: Readonly<Record<ModeName, (settings: Settings, options: NodeOptions) => Rig>> = {
  iptables(settings, { refuse, ...options }) {
    const nodePortAddresses: 'all' | readonly Address[] = options.nodePortAddresses ?? 'all';
    const commands = new FakeIptables(refuse === undefined ? {} : { refuse });
    return new Rig({ commands, settings: (family) => ({ ...settings(family), nodePortAddresses }) });
  },
  nftables(settings, options) {
    const nodePortAddresses: 'all' | readonly Address[] = options.nodePortAddresses ?? 'all';
    const ofFamily = (family: Family) =>
      nodePortAddresses === 'all' ? 'all' : nodePortAddresses.filter((each) => familyOf(each) === family);
    return nftRig({ settings: (family) => ({ ...settings(family), nodePortAddresses: ofFamily(family) }) }).rig;
  },
  ipvs(settings, { nodePortAddresses }) {
    const ports = nodePortAddresses === undefined ? {} : { nodePortCidrs: nodePortAddresses.map(hostCidr) };
    return ipvsRig({ settings: (family) => ({ ...settings(family), ...ports }) }).rig;
  },
};

function viewOf(views: readonly FamilyView[], family: Family): FamilyView {
  return views.find((view) => view.family === family) ?? { family };
}
