/** Why an endpoint sees the sender's address or one of this node (docs/semantics.md 7.1 to 7.7). Pure. */

import { holdsAll, parseAddress } from '../../base/address.ts';
import { MODES } from '../../proxy/model/modes.ts';
import type { Backend } from '../../proxy/model/service-port.ts';
import { hairpinBackends } from '../../proxy/modes/netfilter/local-traffic.ts';
import type { ExplainFacts, FamilyFacts } from './facts.ts';
import type { Fate } from './fates.ts';
import type { PacketSender } from './packet-question.ts';
import type { Subject } from './subject.ts';

/** `why` is a clause that follows "because". */
export interface Masquerading {
  readonly masqueraded: boolean;
  readonly why: string;
}

export interface MasqueradeInput {
  readonly fate: Fate;
  readonly from: PacketSender;
  readonly subject: Subject | undefined;
  /** The endpoint of the fate by the model. */
  readonly backend: Backend | undefined;
  readonly family: FamilyFacts;
  readonly mode: ExplainFacts['by']['mode'];
}

/** The fate as the kernel has it, with the rule of the model where that is the cause. */
export function masquerading(input: MasqueradeInput): Masquerading {
  const { fate, from, subject, family, mode } = input;
  const { masqueraded } = fate;
  const rule = subject === undefined ? undefined : byModel(subject, input);
  if (rule?.masqueraded === masqueraded) return rule;
  if (MODES[mode].balancesBy === 'virtual servers' && from.what === 'node') {
    if (masqueraded) return yes('the kernel takes the address of the Service as the source, because this node has it');
    if (subject?.list === 'Local') return no('this node sends it from an own address to an endpoint on this node');
  }
  if (!masqueraded && rule?.masqueraded === true && isOf(fate.backend, family)) {
    return no('the endpoint has an address of this node, and the packet does not leave it');
  }
  const step = fate.way.findLast(({ effect }) => effect.kind === 'masquerade');
  const why =
    step === undefined
      ? 'no rule in the kernel masquerades it'
      : `a rule in the kernel masquerades it (${step.table} ${step.chain}: ${step.rule})`;
  return { masqueraded, why };
}

function byModel(subject: Subject, { fate, from, backend, family }: MasqueradeInput): Masquerading {
  // Services share the entries of endpoints that reach themselves: the rule may be there for another Service.
  if (backend?.address === from.address && (fate.masqueraded || isHairpin(backend, subject, family))) {
    return yes('the endpoint is the sender itself, which would not recognise its own answer');
  }
  return subject.frontend.role === 'cluster-ip' ? toClusterIP(from, family) : toExternal(subject, from);
}

function isHairpin({ text }: Backend, { port }: Subject, { localDetector }: FamilyFacts): boolean {
  return hairpinBackends(port, localDetector).some((backend) => backend.text === text);
}

function toClusterIP(from: PacketSender, { masqueradeAll, localDetector }: FamilyFacts): Masquerading {
  if (masqueradeAll) return yes('--masquerade-all masquerades all connections to cluster IPs');
  if (localDetector.kind === 'none') {
    return no('this node cannot recognise its Pods, and does not masquerade connections to cluster IPs then');
  }
  if (localDetector.kind === 'cidr' && holdsAll(localDetector.cidr)) {
    return no(`the range of Pods, ${localDetector.cidr}, holds every sender`);
  }
  const where = localDetector.kind === 'cidr' ? localDetector.cidr : `the interface ${localDetector.name}`;
  if (from.isLocalPod) return no(`the sender is a Pod (it is in ${where})`);
  const who =
    from.what === 'node' ? 'the sender is this node, not a Pod' : `the sender is not a Pod (it is not in ${where})`;
  return yes(`${who}: the answer must come back through this node`);
}

function toExternal({ frontend: { policy } }: Subject, from: PacketSender): Masquerading {
  if (policy === 'Cluster') {
    return yes('externalTrafficPolicy is Cluster: the answer must come back through this node');
  }
  if (from.what === 'node') return yes('this node itself sends it to an external address');
  if (from.isLocalPod) return no('Pods keep their address under externalTrafficPolicy Local');
  return no('externalTrafficPolicy is Local, which keeps the address of the client');
}

function yes(why: string): Masquerading {
  return { masqueraded: true, why };
}

function no(why: string): Masquerading {
  return { masqueraded: false, why };
}

/** Whether an endpoint, as `ip:port`, has an address of this node: only what leaves the node meets nat POSTROUTING. */
function isOf(endpoint: string, { localAddresses }: FamilyFacts): boolean {
  const address = parseAddress(endpoint.slice(0, endpoint.lastIndexOf(':')).replace(/[[\]]/g, ''));
  return address !== undefined && localAddresses.has(address);
}
