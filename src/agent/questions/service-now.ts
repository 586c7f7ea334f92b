/** Describes one Service as the agent has it now, with its rules in the kernel. */

import { firstLines, type KernelLines, kernelPlaces } from '../../inspect/overview/kernel-lines.ts';
import { type ServiceContent, serviceContent } from '../../inspect/overview/service-details.ts';
import type { RowFacts } from '../../inspect/overview/service-list.ts';
import type { AnsweredBy } from '../../inspect/wire/schema-common.ts';
import { allInterfaceAddresses } from '../../kernel/node-facts.ts';
import type { Service } from '../../proxy/model/objects.ts';
import type { ServicePort } from '../../proxy/model/service-port.ts';
import { packetFacts } from './explain-facts.ts';
import type { PageAgent, PageParts } from './query-parts.ts';

export interface ServiceAbout {
  readonly by: AnsweredBy;
  readonly facts: RowFacts;
  readonly parts: Pick<PageParts, 'feed' | 'agent' | 'trafficOf'>;
}

/** Throws NetlinkError when the addresses of this node cannot be read. */
export async function serviceNow(
  service: Service,
  { by, facts, parts }: ServiceAbout,
): Promise<ServiceContent & KernelLines> {
  const { cache } = parts.feed();
  const content = serviceContent(service, {
    ...facts,
    objects: cache,
    node: {
      name: by.node,
      zone: cache.node?.zone ?? '',
      podCIDRs: cache.node?.podCIDRs ?? [],
      suspects: cache.own.suspects,
    },
    traffic: await parts.trafficOf?.(service.key),
    explainFaultsOf: (kind, of) => (kind === 'EndpointSlice' ? cache.faults.of(`slice ${of}`) : []),
  });
  return { ...content, ...(await kernelLines(facts.portsOf(service.key), parts.agent())) };
}

/** The rules of the ports as the agent believes them to be in the kernel; none until it was read. */
async function kernelLines(ports: readonly ServicePort[], agent: PageAgent | undefined): Promise<KernelLines> {
  if (agent === undefined) return { rules: [], rulesOmitted: 0 };
  const interfaces = await allInterfaceAddresses();
  const places = agent.mode.inspection.believed().flatMap((view) => {
    const facts = packetFacts(agent.onNode.recorded.settings, view.family, interfaces);
    return kernelPlaces(ports, { view, nodePortAddresses: facts?.nodePortAddresses ?? [] });
  });
  return firstLines(places);
}
