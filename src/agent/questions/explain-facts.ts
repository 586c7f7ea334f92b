/** Collects the facts of an explanation: objects, model and kernel of an agent, now or at an earlier moment. */
import { type Address, addressBytes, type Cidr, type Family, familyOf, isLoopback } from '../../base/address.ts';
import { breath } from '../../base/clock.ts';
import type { Cache } from '../../cluster/cache/cache.ts';
import type { ExplainedObjects, ExplainFacts, FamilyFacts, KnownPod } from '../../inspect/explain/facts.ts';
import type { RecordedParts } from '../../inspect/history/shapes.ts';
import type { AnsweredBy } from '../../inspect/wire/schema-common.ts';
import type { IsNodeAddress } from '../../proxy/model/flow-leftovers.ts';
import type { NodeView, ObjectKind } from '../../proxy/model/objects.ts';
import type { ProxyModel } from '../../proxy/model/proxy-model.ts';
import type { LastWriter } from '../../proxy/modes/inspection.ts';
import type { Mode } from '../../proxy/modes/mode.ts';
import type { FamilyView } from '../../proxy/modes/view.ts';
import type { SyncLoop } from '../../proxy/sync/loop.ts';
import { ipvsNodePortFilter, nodePortFilter } from '../mode-settings.ts';
import type { KubeProxyRules } from './kube-proxy-rules.ts';

/** The parts of an agent that an explanation reads. */
export interface Explained {
  /** All objects, for near misses. */
  readonly objects: ExplainedObjects;
  readonly cache: Cache;
  readonly model: ProxyModel;
  readonly loop: SyncLoop;
  readonly mode: Mode;
  /** The settings that the mode was built with. */
  readonly settings: RecordedParts['settings'];
  readonly interfaces: readonly Address[];
  readonly node: NodeView | undefined;
}

interface FactsInput extends Pick<ExplainFacts, 'formerOwnerOf' | 'isPending' | 'routeTo' | 'relay'> {
  readonly by: AnsweredBy;
  readonly explained: Explained;
  /** The rules in the kernel. */
  readonly stands: readonly FamilyView[];
  /** undefined where Pods are not known. */
  readonly pods: ReadonlyMap<string, KnownPod> | undefined;
  readonly lastWriter: LastWriter | undefined;
  /** Whose rules stand, where they are not those of the mode. */
  readonly of?: KubeProxyRules | undefined;
}

export function explainFacts({
  by,
  explained,
  stands,
  pods,
  lastWriter,
  isPending,
  formerOwnerOf,
  routeTo,
  relay,
  of,
}: FactsInput): ExplainFacts {
  const { objects, cache, model, loop, mode, node } = explained;
  return {
    by,
    objects,
    model,
    faultsOf: (kind, key) => [
      ...cache.faults.of(`${EVENT_KINDS[kind] ?? kind} ${key}`),
      ...(kind === 'Service' ? loop.faults.of(key) : []),
    ],
    faults: () => [...cache.faults.all, ...loop.faults.all],
    node: { name: by.node, zone: node?.zone ?? '', podCIDRs: node?.podCIDRs ?? [], suspects: cache.own.suspects },
    families: familyFacts(explained, stands, of),
    remembered: of?.remembered ?? ((family, memories, client) => mode.inspection.remembered(family, memories, client)),
    ...(formerOwnerOf === undefined ? {} : { formerOwnerOf }),
    routeTo,
    ...(pods === undefined ? {} : { pod: (key: string) => pods.get(key) }),
    refused: new Map([...loop.refused].map(([key, { cause }]) => [key, cause])),
    isPending,
    relay,
    lastWriter,
    yieldToEventLoop: breath,
  };
}

/** The kinds of events under which the cache keeps the faults of objects. */
const EVENT_KINDS: Readonly<Partial<Record<ObjectKind, string>>> = {
  Service: 'service',
  EndpointSlice: 'slice',
  Node: 'node',
  ServiceCIDR: 'serviceCidr',
};

function familyFacts(
  { mode, settings, interfaces }: Explained,
  stands: readonly FamilyView[],
  of: KubeProxyRules | undefined,
): Map<Family, FamilyFacts> {
  const found = new Map<Family, FamilyFacts>();
  const own = mode.inspection.desired();
  const desired = of === undefined ? own : of.replacedBy(own);
  for (const view of stands) {
    const { family } = view;
    const wanted = desired.find((one) => one.family === family);
    const facts = packetFacts(settings, family, interfaces);
    if (wanted !== undefined && facts !== undefined) {
      found.set(family, { family, installed: view, desired: wanted, ...facts });
    }
  }
  return found;
}

type PacketFacts = Omit<FamilyFacts, 'family' | 'installed' | 'desired'>;

/**
 * The facts of this machine and its configuration that decide about packets beside the rules, from the settings that a mode was built with.
 * `interfaces` are the addresses of all families. undefined for a family that the mode does not serve.
 */
export function packetFacts(
  settings: RecordedParts['settings'],
  family: Family,
  interfaces: readonly Address[],
): PacketFacts | undefined {
  const of = ofMode(settings, family, interfaces);
  if (of === undefined) return undefined;
  const { shared, takes, localhostNodePorts, serviceCidrs } = of;
  const { masqueradeAll, localDetector, nodeAddresses } = shared;
  const own = interfaces.filter((address) => familyOf(address) === family);
  // The Node's addresses come first, and so does the primary one.
  const ordered = [...nodeAddresses.filter((address) => own.includes(address)), ...own];
  const taking = ordered.filter((address) => !isLoopback(address) && takes(addressBytes(address)));
  return {
    masqueradeAll,
    localDetector,
    nodeAddresses,
    localAddresses: new Set(own),
    nodePortAddresses: [...new Set(taking)],
    localhostNodePorts,
    serviceCidrs,
  };
}

interface ModeFacts {
  readonly shared: Pick<FamilyFacts, 'masqueradeAll' | 'localDetector' | 'nodeAddresses'>;
  readonly takes: IsNodeAddress;
  readonly localhostNodePorts: boolean;
  readonly serviceCidrs: readonly Cidr[];
}

function ofMode(
  settings: RecordedParts['settings'],
  family: Family,
  interfaces: readonly Address[],
): ModeFacts | undefined {
  const isOf = (one: { readonly family: Family }) => one.family === family;
  if (settings.mode === 'ipvs') {
    const shared = settings.families.find(isOf);
    if (shared === undefined) return undefined;
    return { shared, takes: ipvsNodePortFilter(shared, interfaces), localhostNodePorts: false, serviceCidrs: [] };
  }
  if (settings.mode === 'iptables') {
    const shared = settings.families.find(isOf);
    if (shared === undefined) return undefined;
    const { localhostNodePorts } = shared;
    return { shared, takes: nodePortFilter(shared, interfaces), localhostNodePorts, serviceCidrs: [] };
  }
  const shared = settings.families.find(isOf);
  if (shared === undefined) return undefined;
  const serviceCidrs = shared.serviceCidrs ?? [];
  return { shared, takes: nodePortFilter(shared, interfaces), localhostNodePorts: false, serviceCidrs };
}
