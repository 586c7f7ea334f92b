/**
 * Numbers of a table of iptables' legacy variant, without reading the table (linux/netfilter_ipv4/ip_tables.h,
 * linux/netfilter_ipv6/ip6_tables.h). The kernel has no chains by name, only the number of entries and their offsets.
 */
import { endianness } from 'node:os';
import { close, getSocketOption, SOCK_DGRAM, socket } from './libc.ts';
import { familyNumber, type NetfilterFamily } from './nfnetlink.ts';

export const IPPROTO_IP = 0;
export const IPPROTO_IPV6 = 41;
export const IPT_SO_GET_INFO = 64;
export const IP6T_SO_GET_INFO = 64;
/** The length of struct ipt_getinfo and of struct ip6t_getinfo; the kernel accepts no other. */
export const TABLE_INFO = 84;
/** Offset of num_entries in it. */
export const TABLE_INFO_ENTRIES = 76;
/** The length of the name, the part that the caller fills in. */
export const XT_TABLE_MAXNAMELEN = 32;

/** A socket for questions about tables of one family. */
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
   * Hooks, number and size of a table's entries as hexadecimal text to compare, and the number of entries. Needs NET_ADMIN.
   * Throws SystemError, with ENOENT when the kernel has no such table.
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

/** The structure with the table's name; the kernel fills in the rest. Throws RangeError for a name that does not fit. */
export function tableQuestion(table: string): Buffer {
  const question = Buffer.alloc(TABLE_INFO);
  if (table.length >= XT_TABLE_MAXNAMELEN) throw new RangeError(`invalid name of a table: ${table}`);
  question.write(table, 'latin1');
  return question;
}
