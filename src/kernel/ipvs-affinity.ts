/**
 * Session affinity of IPVS: the templates in /proc/net/ip_vs_conn of this process's network namespace, connections of client port 0 that
 * choose the destination of a client's next connection (ip_vs_conn_seq_show in net/netfilter/ipvs/ip_vs_conn.c).
 */
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Protocol } from '../base/address.ts';
import { type Address, addressOfBytes, familyOf, parseAddress } from '../base/address.ts';
import type { Template } from './ipvs-kernel.ts';

const CONNECTIONS = '/proc/net/ip_vs_conn';

/** The templates of a client. The file has every connection of IPVS and is read line by line. Throws when it cannot be read. */
export async function templatesOf(
  client: Address,
  lines: AsyncIterable<string> = linesOf(CONNECTIONS),
): Promise<Template[]> {
  const found: Template[] = [];
  for await (const line of lines) {
    const template = templateIn(line, client);
    if (template !== undefined) found.push(template);
  }
  return found;
}

function linesOf(path: string): AsyncIterable<string> {
  return createInterface({ input: createReadStream(path, 'latin1') });
}

/** `TCP 0AF40107 0000 0A600014 0050 0AF4010B 1F90 NONE 10795`; undefined for any other connection. */
function templateIn(line: string, client: Address): Template | undefined {
  const [protocol = '', from = '', fromPort, to = '', toPort = '', at = '', atPort = '', , seconds = ''] = line
    .trim()
    .split(/\s+/);
  if (fromPort !== '0000' || addressIn(from) !== client) return undefined;
  const [server, destination] = [addressIn(to), addressIn(at)];
  if (server === undefined || destination === undefined || !isProtocol(protocol) || !/^\d+$/.test(seconds))
    return undefined;
  return {
    server: { protocol, address: server, port: Number.parseInt(toPort, 16) },
    destination: { address: destination, port: Number.parseInt(atPort, 16) },
    seconds: Number(seconds),
  };
}

function isProtocol(text: string): text is Protocol {
  return text === 'TCP' || text === 'UDP' || text === 'SCTP';
}

/** Eight hexadecimal digits for IPv4, or an IPv6 address with all its digits. */
function addressIn(text: string): Address | undefined {
  if (/^[0-9A-F]{8}$/.test(text)) return addressOfBytes(Buffer.from(text, 'hex'));
  const address = parseAddress(text);
  return address !== undefined && familyOf(address) === 'IPv6' ? address : undefined;
}
