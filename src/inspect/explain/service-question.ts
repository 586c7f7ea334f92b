/** Reads `svc/NAMESPACE/NAME[:PORT]`. Pure. */

import type { Service, ServicePortSpec } from '../../proxy/model/objects.ts';
import { faultText } from '../../proxy/model/objects.ts';
import { listText } from '../wire/format.ts';
import { WrongQuestion } from '../wire/problem.ts';
import { type ExplainFacts, protocolOf } from './facts.ts';
import { nearest, nearestService } from './nearest.ts';
import type { WantedDestination } from './packet-question.ts';
import { capital, portName } from './phrases.ts';

/** The cluster IPs of a Service, and one of its ports. Throws WrongQuestion. */
export function destinationOf(text: string, facts: ExplainFacts): WantedDestination {
  const parts = /^[a-z]+\/([^/:]+)\/([^/:]+)(?::([^/]*))?(?:\/(.*))?$/.exec(text);
  if (parts === null) {
    const near = nearestService(text.slice(text.indexOf('/')), keysOf(facts.objects.services()));
    const meant = near === undefined ? '' : `; did you mean svc/${near}?`;
    throw new WrongQuestion(`TO ${text}: a Service is written svc/NAMESPACE/NAME, or svc/NAMESPACE/NAME:PORT${meant}`);
  }
  const [, namespace = '', name = '', port, protocolText] = parts;
  const protocol = protocolText === undefined ? undefined : protocolOf(protocolText);
  if (protocolText !== undefined && protocol === undefined) {
    throw new WrongQuestion(`TO ${text}: ${protocolText || '""'} is no protocol; write /tcp, /udp or /sctp`);
  }
  const key = `${namespace}/${name}`;
  const service = facts.objects.service(key);
  if (service === undefined) throw new WrongQuestion(unknownService(key, facts));
  const fitting = service.ports.filter((spec) => fits(spec, port) && (protocol ?? spec.protocol) === spec.protocol);
  const tcp = fitting.filter((spec) => spec.protocol === 'TCP');
  const [found, another] = fitting.length > 1 && port !== undefined && tcp.length === 1 ? tcp : fitting;
  if (found === undefined || another !== undefined) throw new WrongQuestion(whichPort(service, port, protocolText));
  return { addresses: service.clusterIPs, port: found.port, protocol: found.protocol };
}

function fits({ name, port }: ServicePortSpec, asked: string | undefined): boolean {
  return asked === undefined || asked === name || asked === String(port);
}

/** `no Service shop/wbe; did you mean shop/web?` */
function unknownService(key: string, facts: ExplainFacts): string {
  const [fault] = facts.faultsOf('Service', key).filter(({ effect }) => effect === 'object set aside');
  if (fault !== undefined) return `Service ${key} is set aside, and nothing of it is programmed: ${faultText(fault)}`;
  const slices = facts.objects.slicesOf(key).length;
  if (slices > 0) {
    return `Service ${key} is not served: it has EndpointSlices, but it is headless, of type ExternalName, another proxy's, or deleted`;
  }
  const near = nearestService(key, keysOf(facts.objects.services()));
  return near === undefined
    ? `no Service ${key}; headless Services and those of type ExternalName are not served`
    : `no Service ${key}; did you mean ${near}?`;
}

function whichPort(service: Service, asked: string | undefined, protocol: string | undefined): string {
  const { key, ports } = service;
  const [first] = ports;
  const has = `Service ${key} has ${ports.length === 1 ? 'port' : 'ports'} ${listText(ports.map(portName))}`;
  const isTwice = ports.some((a) => ports.some((b) => a !== b && a.port === b.port));
  const example = first === undefined ? '' : `svc/${key}:${first.name === '' ? first.port : first.name}`;
  if (asked === undefined && protocol === undefined) return `${has}: name one, such as ${example}`;
  const what = [asked, protocol].filter((each) => each !== undefined).join('/');
  const isAmbiguous = asked !== undefined && ports.filter((spec) => fits(spec, asked)).length > 1;
  if (isAmbiguous && isTwice) return `${has}: name the protocol as well, such as svc/${key}:${asked}/udp`;
  const near =
    asked === undefined
      ? undefined
      : nearest(
          asked,
          ports.map(({ name }) => name).filter((name) => name !== ''),
        );
  return capital(near === undefined ? `${has}, not ${what}` : `${has}, not ${what}; did you mean svc/${key}:${near}?`);
}

function* keysOf(services: Iterable<Service>): Generator<string> {
  for (const { key } of services) yield key;
}
