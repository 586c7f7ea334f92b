/** Lists the addresses and ports that this node answers from outside now. */

import { type Cidr, type Family, familyOf } from '../../base/address.ts';
import { inPortions } from '../../base/portions.ts';
import type { RelayFacts } from '../../inspect/explain/facts.ts';
import { type ExposureFamily, ExposureList } from '../../inspect/overview/exposure-list.ts';
import { API_VERSION } from '../../inspect/wire/envelope.ts';
import type { Exposure } from '../../inspect/wire/exposure.ts';
import type { AnsweredBy } from '../../inspect/wire/schema-common.ts';
import { allInterfaceAddresses } from '../../kernel/node-facts.ts';
import type { Agent } from '../agent.ts';
import { packetFacts } from './explain-facts.ts';
import { refusedServices } from './query-parts.ts';

export interface ExposureAbout {
  readonly by: AnsweredBy;
  readonly agent: Agent;
  /** --ipvs-strict-arp */
  readonly strictArp: boolean;
  readonly relay: RelayFacts;
}

/** Throws NetlinkError when the addresses of this node cannot be read, and the signal's reason. */
export async function exposureNow(
  { by, agent, strictArp, relay }: ExposureAbout,
  signal: AbortSignal,
): Promise<Exposure> {
  const { feed, model } = agent;
  const families = await familiesOf(agent);
  const list = new ExposureList({ mode: by.mode, strictArp, families, relay, refused: refusedServices(agent) });
  const take = (key: string) => list.add(feed.cache.service(key), model.portsOf(key));
  await inPortions(feed.cache.byName.keys(), take, signal);
  return { apiVersion: API_VERSION, kind: 'Exposure', by, ...list.content() };
}

async function familiesOf({ feed, onNode }: Agent): Promise<ReadonlyMap<Family, ExposureFamily>> {
  const interfaces = await allInterfaceAddresses();
  const { settings } = onNode.recorded;
  const node = feed.node();
  const found = new Map<Family, ExposureFamily>();
  for (const family of onNode.families) {
    const facts = packetFacts(settings, family, interfaces);
    if (facts === undefined) continue;
    const { nodePortAddresses, localAddresses, nodeAddresses, localhostNodePorts, serviceCidrs, localDetector } = facts;
    const ofPods: Cidr[] = (node?.podCIDRs ?? []).filter((cidr) => familyOf(cidr) === family);
    if (localDetector.kind === 'cidr') ofPods.push(localDetector.cidr);
    const own = new Set([...localAddresses, ...nodeAddresses]);
    const podCidrs = [...new Set(ofPods)];
    found.set(family, { family, nodePortAddresses, own, localhostNodePorts, serviceCidrs, podCidrs });
  }
  return found;
}
