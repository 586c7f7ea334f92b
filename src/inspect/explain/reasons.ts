/** The reasons of a verdict, object by object, each with the field that decided. Pure. */

import { cidrContains } from '../../base/address.ts';
import { BALANCE_ANNOTATION, balanceText } from '../../proxy/model/labels.ts';
import { type LimitName, limitAnnotation, limitText } from '../../proxy/model/limits.ts';
import type { Fault } from '../../proxy/model/objects.ts';
import type { ExplainedSlice, Explanation, Reason } from '../wire/explanation.ts';
import { capitalized, secondsText } from '../wire/format.ts';
import { causeText } from './differs.ts';
import type { ExplainFacts, FamilyFacts } from './facts.ts';
import type { PacketQuery } from './packet-query.ts';
import { slicesSetAside } from './slice-endpoints.ts';
import { ROLES, type Subject } from './subject.ts';

export interface ReasonsInput {
  readonly query: PacketQuery;
  readonly subject: Subject;
  readonly slices: readonly ExplainedSlice[];
  readonly sticky: Explanation['verdict']['sticky'];
  readonly family: FamilyFacts;
  readonly facts: ExplainFacts;
  /** See `ExplainFacts.refusedBy`. */
  readonly refusedBy: ReadonlyMap<LimitName, number> | { readonly cause: string } | undefined;
}

export function reasonsOf(input: ReasonsInput): Reason[] {
  return [
    frontendReason(input),
    portReason(input),
    policyReason(input),
    ...affinityReason(input),
    ...balanceReason(input),
    ...limitReasons(input),
    ...rangesReason(input),
    ...hintsReason(input),
    ...stateReasons(input),
    ...faultReasons(input),
  ];
}

function about({ subject: { service } }: ReasonsInput, field: string, value: string, says: string): Reason {
  return { object: `Service ${service.key}`, field, value, says: `${capitalized(says)}.` };
}

function frontendReason(input: ReasonsInput): Reason {
  const { role, address } = input.subject.frontend;
  const { name, field } = ROLES[role];
  const { to } = input.query;
  if (address === undefined) {
    const { isRelayed } = input.subject;
    const at = isRelayed
      ? `${to.address} is a loopback address at which the relay serves node ports (--nodeport-addresses)`
      : `${to.address} is an address of this node that takes node ports`;
    return about(input, field, String(to.port), `${at}, and ${to.port} is the node port of ${input.subject.port.id}`);
  }
  const a = role === 'external-ip' ? 'an' : 'the';
  return about(input, field, address, `${address} is ${role === 'load-balancer' ? 'a' : a} ${name} of the Service`);
}

function portReason(input: ReasonsInput): Reason {
  const { name, port, protocol } = input.subject.spec;
  const which = name === '' ? 'the port without a name' : `port ${name}`;
  const value = name === '' ? `${port}/${protocol}` : `${name} ${port}/${protocol}`;
  return about(input, 'spec.ports', value, `its endpoints are those of ${which} (${protocol}) in its EndpointSlices`);
}

function policyReason(input: ReasonsInput): Reason {
  const { frontend, service, list } = input.subject;
  const here = `this node (${input.facts.node.name})`;
  if (frontend.role === 'cluster-ip') {
    const says = list === 'Local' ? `only endpoints on ${here} are used` : 'endpoints of all nodes are used';
    return about(input, 'spec.internalTrafficPolicy', list, `${says} for the cluster IP`);
  }
  const field = 'spec.externalTrafficPolicy';
  if (frontend.policy === 'Cluster') {
    const ignored = service.externalTrafficPolicy === 'Local' ? 'it does not apply to a Service of this type; ' : '';
    return about(input, field, service.externalTrafficPolicy, `${ignored}endpoints of all nodes are used`);
  }
  if (input.subject.isRelayed) {
    return about(
      input,
      field,
      'Local',
      `only endpoints on ${here} are used: on loopback this holds for the node itself`,
    );
  }
  if (list === 'Local') {
    return about(input, field, 'Local', `only endpoints on ${here} are used for clients outside`);
  }
  const says = 'it is about clients outside; Pods of this node and the node itself use endpoints of all nodes';
  return about(input, field, 'Local', says);
}

function affinityReason(input: ReasonsInput): Reason[] {
  const { sticky, subject } = input;
  const { affinitySeconds } = subject.port;
  if (affinitySeconds === 0) return [];
  const says = subject.isRelayed
    ? `the relay stays with one endpoint until no connection on loopback has begun for ${secondsText(affinitySeconds)}`
    : sticky === null
      ? `the kernel remembers no endpoint for this client; it remembers the one that the client gets for ${secondsText(affinitySeconds)}`
      : `the kernel remembers ${sticky.endpoint} for this client for another ${secondsText(sticky.seconds)}; each new connection starts the time again`;
  return [about(input, 'spec.sessionAffinity', `ClientIP (${secondsText(affinitySeconds)})`, says)];
}

function balanceReason(input: ReasonsInput): Reason[] {
  const { hashes } = input.subject.port;
  if (hashes === undefined || input.subject.isRelayed) return [];
  const says = `the ${hashes} of the client decides about its endpoint, on every node alike`;
  return [about(input, `metadata.annotations["${BALANCE_ANNOTATION}"]`, balanceText(hashes), says)];
}

const BEYOND: Readonly<Record<LimitName, string>> = {
  'new-connections': 'more new connections are refused',
  'max-connections-per-client': 'a further connection of a client that has so many open is refused',
  'max-connections': 'a further connection is refused while so many are open',
};

function limitReasons(input: ReasonsInput): Reason[] {
  const { subject, refusedBy } = input;
  if (subject.isRelayed) return [];
  return (subject.port.limits ?? []).map((limit) => {
    const soFar = refusedText(limit.name, refusedBy);
    const says = `${BEYOND[limit.name]}, as each node, family and port counts for itself${soFar}`;
    return about(input, `metadata.annotations["${limitAnnotation(limit.name)}"]`, limitText(limit), says);
  });
}

function refusedText(name: LimitName, refusedBy: ReasonsInput['refusedBy']): string {
  if (refusedBy === undefined) return '';
  if ('cause' in refusedBy) return `; its counter cannot be read (${refusedBy.cause})`;
  const count = refusedBy.get(name);
  return count === undefined ? '' : `; it has refused ${count} so far`;
}

function rangesReason(input: ReasonsInput): Reason[] {
  const { subject, query, family } = input;
  const { sourceRanges } = subject.port;
  if (sourceRanges === undefined || subject.frontend.role === 'node-port') return [];
  const reason = (says: string) => [
    about(input, 'spec.loadBalancerSourceRanges', sourceRanges.join(',') || 'none of this family', says),
  ];
  if (subject.frontend.role !== 'load-balancer') return reason("they hold for the load balancer's addresses only");
  const { from } = query;
  const senders = from.what === 'node' ? family.nodeAddresses : [from.address];
  const found = sourceRanges.find((range) => senders.some((sender) => cidrContains(range, sender)));
  const who = from.what === 'node' ? 'this node' : from.address;
  return reason(found === undefined ? `no range admits ${who}` : `${found} admits ${who}`);
}

function hintsReason(input: ReasonsInput): Reason[] {
  const { subject, facts } = input;
  if (subject.list === 'Local') return [];
  const { service, port } = subject;
  const object = `EndpointSlices of ${service.key}`;
  const field = 'endpoints[].hints';
  if (port.idleHints !== undefined) {
    const { zones, why } = port.idleHints;
    return [{ object, field, value: zones, says: `The hints are not used: ${why}.` }];
  }
  const uses = input.slices.flatMap(({ endpoints }) => endpoints.map(({ use }) => use));
  const isForNodes = uses.some((use) => use === 'hinted for other nodes');
  const isForZones = uses.some((use) => use === 'hinted for other zones');
  if (!isForNodes && !isForZones) return [];
  const { name, zone } = facts.node;
  const [value, here] = isForNodes ? [name, `this node (${name})`] : [zone, `the zone of this node (${zone})`];
  return [{ object, field, value, says: `Every ready endpoint has a hint: only those for ${here} are used.` }];
}

/** A refusal by the kernel, or a change that is not written yet. */
function stateReasons(input: ReasonsInput): Reason[] {
  const { key } = input.subject.service;
  const { refused, isPending } = input.facts;
  const cause = refused.get(key);
  if (cause !== undefined) {
    const says = `the kernel refuses its rules (${causeText(cause)}): its former rules stay, and the agent tries again later`;
    return [about(input, '', '', says)];
  }
  return isPending(key) ? [about(input, '', '', 'a change of it is not written to the kernel yet')] : [];
}

function faultReasons(input: ReasonsInput): Reason[] {
  const { subject, facts } = input;
  const { key } = subject.service;
  const own = facts.faultsOf('Service', key).filter(({ part }) => part !== 'hints');
  const slices = input.slices.flatMap(({ slice }) =>
    facts.faultsOf('EndpointSlice', slice).filter(({ kind, part }) => kind === 'EndpointSlice' && part !== 'endpoint'),
  );
  const aside = slicesSetAside(subject.service, facts).map(
    (text): Reason => ({ object: `EndpointSlices of ${key}`, field: '', value: '', says: `${text}.` }),
  );
  return [...[...own, ...slices].map(reasonOfFault), ...aside];
}

function reasonOfFault(fault: Fault): Reason {
  const { kind, object, field, value, problem, effect } = fault;
  return { object: `${kind} ${object}`, field, value, says: `${capitalized(problem)} (${effect}).` };
}
