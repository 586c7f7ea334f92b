/**
 * What the kernel tells of a table of iptables' legacy variant without reading it (linux/netfilter_ipv4/ip_tables.h,
 * linux/netfilter_ipv6/ip6_tables.h): it knows no chains by name, only how many entries there are and where they lie.
 */
import { endianness } from 'node:os';
import { close, getSocketOption, SOCK_DGRAM, socket } from './libc.ts';
import { familyNumber, type NetfilterFamily } from './nfnetlink.ts';

export const IPPROTO_IP = 0;
export const IPPROTO_IPV6 = 41;
export const IPT_SO_GET_INFO = 64;
export const IP6T_SO_GET_INFO = 64;
/** struct ipt_getinfo, and struct ip6t_getinfo, which is the same: the kernel takes no other length. */
export const TABLE_INFO = 84;
/** Offset of num_entries in it. */
export const TABLE_INFO_ENTRIES = 76;
/** What the caller fills in. */
export const XT_TABLE_MAXNAMELEN = 32;

export class XtablesSocket {
  readonly #family: NetfilterFamily;
  readonly #descriptor: number;

  /** Throws SystemError. */
  constructor(family: NetfilterFamily) {
    this.#family = family;
    this.#descriptor = socket(familyNumber(family), SOCK_DGRAM, 0);
  }

  close(): void {
    close(this.#descriptor);
  }

  /**
   * Hooks, number and size of the entries of a table, as digits to compare, and the number of entries by itself. Needs NET_ADMIN. Throws SystemError: ENOENT
   * when the kernel has no such table.
   */
  tableNumbers(table: string): { readonly text: string; readonly entries: number } {
    const [level, option] = this.#family === 'IPv4' ? [IPPROTO_IP, IPT_SO_GET_INFO] : [IPPROTO_IPV6, IP6T_SO_GET_INFO];
    const info = tableQuestion(table);
    const length = getSocketOption(this.#descriptor, level, option, info);
    if (length !== TABLE_INFO) throw new RangeError(`the kernel answered ${length} bytes about the table ${table}`);
    const entries = new DataView(info.buffer, info.byteOffset, info.byteLength).getUint32(
      TABLE_INFO_ENTRIES,
      endianness() === 'LE',
    );
    return { text: info.toString('hex', XT_TABLE_MAXNAMELEN), entries };
  }
}

/** The structure with the name alone, which the kernel fills in. Throws RangeError for a name that does not fit. */
export function tableQuestion(table: string): Buffer {
  const question = Buffer.alloc(TABLE_INFO);
  if (table.length >= XT_TABLE_MAXNAMELEN) throw new RangeError(`a table cannot have the name ${table}`);
  question.write(table, 'latin1');
  return question;
}
