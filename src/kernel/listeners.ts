/** The ports on which programs of this node listen, from /proc/net (proc_pid_net(5)). */
import { type FileHandle, open } from 'node:fs/promises';
import { endianness } from 'node:os';
import { type Address, addressOfBytes, type Protocol, parseAddress } from '../base/address.ts';

/** A listening socket. Its address is 0.0.0.0 or :: when it listens on all addresses. */
export interface ListeningSocket {
  readonly protocol: Protocol;
  readonly address: Address;
  readonly port: number;
}

/** net/tcp_states.h. An unconnected UDP socket has the state CLOSE, and receives from every sender. */
const LISTEN = '0A';
const CLOSE = '07';

const TABLES = [
  { name: 'tcp', protocol: 'TCP', state: LISTEN },
  { name: 'tcp6', protocol: 'TCP', state: LISTEN },
  { name: 'udp', protocol: 'UDP', state: CLOSE },
  { name: 'udp6', protocol: 'UDP', state: CLOSE },
] as const;

/** The listeners of this network namespace. `folder` has the tables. Rejects when a table cannot be read. */
export async function readListeners(folder = '/proc/thread-self/net'): Promise<ListeningSocket[]> {
  const found: ListeningSocket[] = [];
  for (const table of TABLES) found.push(...(await readTable(folder, table)));
  return found;
}

async function readTable(
  folder: string,
  { name, protocol, state }: (typeof TABLES)[number],
): Promise<ListeningSocket[]> {
  let file: FileHandle;
  try {
    file = await open(`${folder}/${name}`);
  } catch (error) {
    // A kernel without IPv6 has no such tables.
    if (name.endsWith('6') && (error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  const found: ListeningSocket[] = [];
  try {
    let isHead = true;
    for await (const line of file.readLines({ autoClose: false })) {
      const [, local = '', , now] = line.trim().split(/\s+/);
      // Listening sockets come first; a million connected ones may follow (Documentation/networking/proc_net_tcp.rst).
      if (!isHead && now !== state && state === LISTEN) break;
      const listener = now === state ? listenerOf(local, protocol) : undefined;
      if (listener !== undefined) found.push(listener);
      isHead = false;
    }
  } finally {
    await file.close();
  }
  return found;
}

/** `0100007F:0016`: words of four bytes in the byte order of this machine, then the port. Port 0 means that there is none. Throws SyntaxError. */
function listenerOf(text: string, protocol: Protocol): ListeningSocket | undefined {
  const [, hex, port] = /^([\dA-F]{8}|[\dA-F]{32}):([\dA-F]{4})$/i.exec(text) ?? [];
  // A port in use must not count as free.
  if (hex === undefined || port === undefined)
    throw new SyntaxError(`a table of sockets has an address of an unknown form: ${text.slice(0, 80)}`);
  const number = Number.parseInt(port, 16);
  const bytes = Buffer.from(hex, 'hex');
  if (endianness() === 'LE') bytes.swap32();
  const address = parseAddress(addressOfBytes(bytes));
  return address === undefined || !(number > 0) ? undefined : { protocol, address, port: number };
}
