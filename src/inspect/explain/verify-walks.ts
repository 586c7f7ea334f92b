/**
 * Verifies the rules of another proxy: each address and port of each Service is asked for from a Pod, from the node and from outside, once by
 * those rules and once by what the objects ask for. The rules themselves cannot be compared, because each proxy has a form of its own. Pure.
 */
import { type Address, endpointText, type Family, familyOf } from '../../base/address.ts';
import type { FrontendAt } from '../../proxy/model/claims.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import { API_VERSION, WrongQuestion } from '../wire/envelope.ts';
import type { Verification, VerifiedDifference } from '../wire/verification.ts';
import { causesOf } from './causes.ts';
import { inWords, isSame } from './differs.ts';
import type { ExplainFacts } from './facts.ts';
import type { Packet } from './packet.ts';
import { readQuery } from './packet-query.ts';
import { subjectOf } from './subject.ts';
import { MAX_DIFFERENCES } from './verify.ts';
import { walk } from './walk.ts';

interface VerifiedRules {
  readonly facts: ExplainFacts;
  /** The destinations that the other proxy's rules name, so that one that no Service has any more is found, too. */
  readonly served: readonly FrontendAt[];
  /** Whether clients outside are the only senders. */
  readonly isOutsideAlone?: boolean;
}

/** Walks between two turns of the event loop. */
const WALKS_AT_ONCE = 20;

/** Resolves with the differences in the order of the Services. */
export async function verifyWalks({ facts, served, isOutsideAlone = false }: VerifiedRules): Promise<Verification> {
  const differences: VerifiedDifference[] = [];
  let [compared, count] = [0, 0];
  const seen = new Set<string>();
  const look = async (at: FrontendAt, service: ServiceKey | undefined) => {
    for (const address of addressesOf(at, facts)) {
      const to = `${endpointText(address, at.port)}/${at.protocol.toLowerCase()}`;
      if (seen.has(to)) continue;
      seen.add(to);
      for (const from of isOutsideAlone ? ['outside'] : sendersOf(at.family, facts)) {
        const difference = differenceOf({ from, to, service }, facts);
        compared += 1;
        if (difference !== undefined) {
          count += 1;
          if (differences.length < MAX_DIFFERENCES) differences.push(difference);
        }
        if (compared % WALKS_AT_ONCE === 0) await facts.yieldToEventLoop();
      }
    }
  };
  for (const { family, protocol, frontends, service } of facts.model.ports.values()) {
    for (const { address, port } of frontends) await look({ family, protocol, address, port }, service);
  }
  for (const at of served) await look(at, undefined);
  const { by } = facts;
  return {
    ...{ apiVersion: API_VERSION, kind: 'Verification', by },
    ...{ equal: count === 0, compared, differences, count, lastWriter: null },
  };
}

/** A node port is asked for at the first address of the node that takes it. */
function addressesOf({ address, family }: FrontendAt, { families }: ExplainFacts): readonly Address[] {
  if (!families.has(family)) return [];
  return address === undefined ? (families.get(family)?.nodePortAddresses.slice(0, 1) ?? []) : [address];
}

/** Senders as `explain` takes them: a Pod of this node where there is one, the node, and a client outside. */
function sendersOf(family: Family, facts: ExplainFacts): readonly string[] {
  const pod = podOf(family, facts);
  return [...(pod === undefined ? [] : [pod]), 'node', 'outside'];
}

const PODS = new WeakMap<ExplainFacts, Map<Family, Address | undefined>>();

/** The address of an endpoint that is a Pod of this node. */
function podOf(family: Family, facts: ExplainFacts): Address | undefined {
  const known = PODS.get(facts) ?? new Map<Family, Address | undefined>();
  PODS.set(facts, known);
  if (known.has(family)) return known.get(family);
  const local = facts.families.get(family)?.localAddresses ?? new Set<Address>();
  let found: Address | undefined;
  for (const { key } of facts.objects.services()) {
    for (const slice of facts.objects.slicesOf(key)) {
      found ??= slice.endpoints.find(
        ({ address, nodeName }) => nodeName === facts.node.name && familyOf(address) === family && !local.has(address),
      )?.address;
    }
    if (found !== undefined) break;
  }
  known.set(family, found);
  return found;
}

interface Question {
  readonly from: string;
  readonly to: string;
  readonly service: ServiceKey | undefined;
}

/** undefined where both ways end alike. */
function differenceOf({ from, to, service }: Question, facts: ExplainFacts): VerifiedDifference | undefined {
  const query = queryOf(from, to, facts);
  const family = query && facts.families.get(query.to.family);
  if (query === undefined || family === undefined) return undefined;
  const { protocol, address, port } = query.to;
  const packet: Packet = {
    ...{ protocol, source: query.from.address, destination: address, port },
    ...{ device: query.from.device, state: 'NEW' },
  };
  const around = { localAddresses: family.localAddresses, remembered: new Set<string>() };
  const installed = walk(family.installed, packet, around);
  const desired = walk(family.desired, packet, around);
  if (isSame(installed.fates, desired.fates)) return undefined;
  const owner = service ?? subjectOf(query, facts, family)?.service.key;
  const fates = { installed: installed.fates, desired: desired.fates };
  return {
    family: query.to.family,
    object: `from ${whoText(from)} to ${to}`,
    service: owner ?? '',
    kind: kindOf(fates),
    wanted: [inWords(fates.desired)],
    found: [inWords(fates.installed)],
    because: '',
    causes: [...causesOf({ ...fates, service: owner, facts }), ...installed.unknown],
    repaired: false,
  };
}

/** undefined for a question that this node cannot ask, such as from a family that it does not serve. */
function queryOf(from: string, to: string, facts: ExplainFacts) {
  try {
    return readQuery(from, to, facts);
  } catch (error) {
    if (error instanceof WrongQuestion) return undefined;
    throw error;
  }
}

function kindOf({ installed, desired }: Record<'installed' | 'desired', readonly { kind: string }[]>) {
  const isLeftAlone = (fates: readonly { kind: string }[]) => fates.every(({ kind }) => kind === 'untouched');
  if (isLeftAlone(installed)) return 'missing';
  return isLeftAlone(desired) ? 'foreign' : 'changed';
}

function whoText(from: string): string {
  if (from === 'node') return 'the node';
  return from === 'outside' ? 'a client outside' : `the Pod at ${from}`;
}
