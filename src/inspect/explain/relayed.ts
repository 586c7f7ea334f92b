/** What becomes of a connection to a node port on loopback, which the agent's relay takes (docs/semantics.md 6.17). Pure. */

import { endpointText } from '../../base/address.ts';
import { specialKind } from '../../proxy/model/special-address.ts';
import type { Explanation } from '../wire/explanation.ts';
import { countText, listText } from '../wire/format.ts';
import type { ExplainFacts } from './facts.ts';
import type { Fate } from './fates.ts';
import type { AskedDestination } from './packet-question.ts';
import { type StoppedInput, stoppedBecause } from './stopped.ts';
import { backendsOf, type Subject } from './subject.ts';

type PacketVerdict = Explanation['verdict'];

const WHY = 'the relay of the agent connects to it from an address of this node';

/** Nobody listens: the kernel answers by a reset. */
const REFUSED: Fate = { kind: 'rejected', backend: '', masqueraded: false, probability: 1, way: [] };

export function relayedVerdict(input: StoppedInput & { readonly subject: Subject }): PacketVerdict {
  const { subject, question, facts } = input;
  const { to } = question;
  const service = subject.port.id;
  const endpoints = backendsOf(subject);
  const none = { service, endpoints: [], sticky: null };
  if (endpoints.length === 0) {
    const sentence = `The connection is refused because ${noneBecause(input)}: the relay of the agent does not listen at ${endpointText(to.address, to.port)}.`;
    return { ...none, kind: 'refused', sentence };
  }
  const cause = facts.relay.failures.get(`${to.address} ${to.port}`);
  if (cause !== undefined) {
    const sentence = `The relay of the agent cannot listen at ${endpointText(to.address, to.port)} (${cause}), so the connection does not reach Service ${service}, but the program of this node that has the port.`;
    return { ...none, kind: 'local', sentence };
  }
  const [first] = endpoints;
  const which =
    endpoints.length === 1
      ? `to ${first?.text}, the only endpoint in use of Service ${service}`
      : `to one of ${countText(endpoints.length, 'endpoint')} of Service ${service}`;
  const sentence = `The relay of the agent takes the connection in user space and passes it on ${which}, which sees an address of this node.`;
  const share = 1 / endpoints.length;
  const explained = endpoints.map(({ text }) => ({ endpoint: text, share, masqueraded: true, why: WHY, steps: [] }));
  return { kind: 'balanced', sentence, service, endpoints: explained, sticky: null };
}

function noneBecause(input: StoppedInput & { readonly subject: Subject }): string {
  const { port, list } = input.subject;
  const [special] = list === 'Local' ? port.local : port.cluster;
  if (special === undefined) return stoppedBecause(input, REFUSED);
  return `the relay never connects to ${special.text}, ${specialKind(special.address)}`;
}

/** Why a node port is not served at a loopback address; `what` names it and its Service. */
export function notRelayed(what: string, to: AskedDestination, facts: Pick<ExplainFacts, 'relay' | 'by'>): string {
  const { addresses } = facts.relay;
  if (addresses.length === 0) {
    return `${what}; in ${facts.by.mode} mode it is served on loopback only where --nodeport-addresses names a range of loopback, such as localhost.`;
  }
  if (to.protocol !== 'TCP') return `${what}; on loopback the relay of the agent serves TCP alone.`;
  const at = listText(addresses.map((address) => endpointText(address, to.port)));
  return `${what}; on loopback it is served at ${at} alone, to programs of this node.`;
}
