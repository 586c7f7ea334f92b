/** Reads a question: FROM and TO, as people write them. Pure. */
import {
  type Address,
  endpointText,
  FAMILIES,
  type Family,
  familyOf,
  type Protocol,
  parseAddress,
} from '../../base/address.ts';
import { faultText, type Service, type ServicePortSpec } from '../../proxy/model/objects.ts';
import { listText } from '../wire/format.ts';
import { WrongQuestion } from '../wire/problem.ts';
import { type ExplainFacts, protocolOf } from './facts.ts';
import { nearest, nearestService } from './nearest.ts';
import type { PacketQuestion, WantedDestination } from './packet-question.ts';
import { capital, portName } from './phrases.ts';
import { readAddress, readSender } from './sender.ts';

/** Read FROM and TO. Throws WrongQuestion with a sentence for the person who asked. */
export function readQuestion(from: string, to: string, facts: ExplainFacts): PacketQuestion {
  const wanted = readDestination(to.trim(), facts);
  const address = chosen(to, wanted, { from, facts });
  const family = familyOf(address);
  if (!facts.families.has(family)) {
    throw new WrongQuestion(`${to}: ${address} is an ${family} address, and this node serves ${served(facts)} only`);
  }
  const { port, protocol } = wanted;
  const destination = { text: to, address, port, protocol, family };
  return { from: readSender(from.trim(), destination, facts), to: destination };
}

function served({ families }: ExplainFacts): string {
  return [...families.keys()].join(' and ');
}

/** The address in the family of FROM, where FROM has one; otherwise the first. */
function chosen(to: string, wanted: WantedDestination, asked: { from: string; facts: ExplainFacts }): Address {
  const isServed = (address: Address) => asked.facts.families.has(familyOf(address));
  // What this node does not serve is named only where there is nothing else.
  const addresses = wanted.addresses.some(isServed) ? wanted.addresses.filter(isServed) : wanted.addresses;
  const [first] = addresses;
  if (first === undefined) throw new WrongQuestion(`${to} has no address on this node`);
  const families = familiesOfSender(asked.from.trim(), asked.facts);
  const own = addresses.find((address) => families.includes(familyOf(address)));
  if (own !== undefined) return own;
  const [is] = families;
  throw new WrongQuestion(
    `FROM ${asked.from} sends by ${is} only, and TO ${to} has ${familyOf(first)} only: a connection needs both in one family`,
  );
}

/** The families in which FROM can send. */
function familiesOfSender(from: string, { pod }: ExplainFacts): readonly Family[] {
  const podKey = /^pod\/([^/]+\/[^/]+)$/.exec(from)?.[1];
  const known = podKey === undefined ? undefined : pod?.(podKey)?.addresses;
  if (known !== undefined && known.length > 0) return known.map(familyOf);
  if (!/[.:]/.test(from) || from.includes('/')) return FAMILIES;
  return [familyOf(readAddress(from, 'FROM'))];
}

const TO_FORMS =
  'ADDRESS:PORT, [IPV6]:PORT, svc/NAMESPACE/NAME[:PORT] or nodeport:PORT, each with /udp or /sctp if it is not TCP';

function readDestination(text: string, facts: ExplainFacts): WantedDestination {
  if (/^(svc|service|services)\//.test(text)) return destinationOf(text, facts);
  const { rest, protocol } = splitProtocol(text);
  if (/^nodeport:/i.test(rest)) return nodePort(rest, protocol ?? 'TCP', facts);
  const bracketed = /^\[([^\]]*)\](?::(.*))?$/.exec(rest);
  const colon = rest.lastIndexOf(':');
  const isBareV6 = bracketed === null && rest.indexOf(':') !== colon;
  if (isBareV6) {
    const [address, port] = split(rest, colon);
    const isBoth = parseAddress(address) !== undefined && /^\d+$/.test(port ?? '') && !address.endsWith(':');
    const example = isBoth ? `[${address}]:${port}` : `[${rest}]:80`;
    throw new WrongQuestion(`TO ${text}: an IPv6 address is written in brackets before its port, such as ${example}`);
  }
  const [host, port] = bracketed !== null ? [bracketed[1] ?? '', bracketed[2]] : split(rest, colon);
  if (host === '') throw new WrongQuestion(`TO ${text || '""'} is no destination; write ${TO_FORMS}`);
  if (/^[a-z][-a-z0-9]*\/[a-z]/i.test(host)) {
    const guess = `svc/${host}`;
    throw new WrongQuestion(
      `TO ${text} is no destination; a Service is written ${guess}${port === undefined ? '' : `:${port}`}`,
    );
  }
  const address = readAddress(host, 'TO');
  if (port === undefined || port === '') {
    throw new WrongQuestion(`TO ${text}: the port is missing; write ${endpointText(address, 80)}, for example`);
  }
  return { addresses: [address], port: readPort(port, text), protocol: protocol ?? 'TCP' };
}

function split(text: string, colon: number): [string, string | undefined] {
  return colon < 0 ? [text, undefined] : [text.slice(0, colon), text.slice(colon + 1)];
}

/** `10.0.0.1:53/udp` → the part before, and the protocol. */
function splitProtocol(text: string): { rest: string; protocol: Protocol | undefined } {
  const slash = text.lastIndexOf('/');
  if (slash < 0) return { rest: text, protocol: undefined };
  const rest = text.slice(0, slash);
  const protocol = protocolOf(text.slice(slash + 1));
  if (protocol !== undefined) return { rest, protocol };
  if (!/:[^/]*$/.test(rest)) return { rest: text, protocol: undefined };
  throw new WrongQuestion(`TO ${text}: ${text.slice(slash + 1) || '""'} is no protocol; write /tcp, /udp or /sctp`);
}

function readPort(text: string, whole: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= 65_535) return port;
  throw new WrongQuestion(`TO ${whole}: port ${text || '""'} must be a number from 1 to 65535`);
}

/** A node port at the first address of each family that takes node ports. */
function nodePort(rest: string, protocol: Protocol, { families, relay }: ExplainFacts): WantedDestination {
  const port = readPort(rest.slice(rest.indexOf(':') + 1), rest);
  const addresses = [...families.values()].flatMap(({ family, nodePortAddresses }) => {
    const relayed = protocol === 'TCP' ? relay.addresses.filter((address) => familyOf(address) === family) : [];
    return [...nodePortAddresses, ...relayed].slice(0, 1);
  });
  if (addresses.length > 0) return { addresses, port, protocol };
  throw new WrongQuestion(
    `TO ${rest}: no address of this node takes node ports; --nodeport-addresses admits none that an interface has`,
  );
}

// Reads `svc/NAMESPACE/NAME[:PORT]`. Pure.

/** The cluster IPs of a Service, and one of its ports. Throws WrongQuestion. */
function destinationOf(text: string, facts: ExplainFacts): WantedDestination {
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
