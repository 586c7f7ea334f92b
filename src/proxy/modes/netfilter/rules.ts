/**
 * The pieces of iptables rules, and rules that modes share, in the form that `iptables-save` prints, so that written and read rules compare as equal
 * strings: -s -d -i -o -p first, then the matches in order, then the target.
 *
 * Every value was parsed by `proxy/model/` (addresses, numbers) or checked by `cluster/api/decode/` (names).
 */
import { type Address, type Cidr, hostCidr, type Protocol } from '../../../base/address.ts';
import type { ServiceKey } from '../../model/objects.ts';

/** One rule without its `-A CHAIN`. */
export interface Rule {
  readonly text: string;
  /** The Service of the rule; undefined for a shared rule. */
  readonly owner: ServiceKey | undefined;
}

/** The rules of a chain, in order. */
export type Chain = readonly Rule[];

/** The tables in use. A restore commits each of them separately. */
export type Table = 'filter' | 'nat' | 'mangle';

export function rule(parts: readonly (string | undefined)[], owner?: ServiceKey): Rule {
  return { text: parts.filter((part) => part !== undefined && part !== '').join(' '), owner };
}

export function sameChain(a: Chain, b: Chain): boolean {
  return a === b || (a.length === b.length && a.every((line, i) => line.text === b[i]?.text));
}

export const from = (net: Address | Cidr): string => `-s ${asCidr(net)}`;
export const to = (net: Address | Cidr): string => `-d ${asCidr(net)}`;
export const protocol = (name: Protocol): string => `-p ${name.toLowerCase()}`;
export const jump = (chain: string): string => `-j ${chain}`;
export const goTo = (chain: string): string => `-g ${chain}`;

/** Destination ports, both ends inclusive. A `-p` of the same protocol must come before. */
export function toPort(name: Protocol, first: number, last = first): string {
  const lower = name.toLowerCase();
  return `-m ${lower} --dport ${first === last ? first : `${first}:${last}`}`;
}

/** Quoted as by xtables_save_string: text of only letters, digits, `_` and `-` stays bare (libxtables/xtables.c). */
export function comment(text: string): string {
  const quoted = /^[A-Za-z0-9_-]+$/.test(text) ? text : `"${text.replace(/[\\"']/g, '\\$&')}"`;
  return `-m comment --comment ${quoted}`;
}

const ONE_IN: string[] = [];

/** Match one packet in `of`, at random. */
export function oneIn(of: number): string {
  // Tens of thousands of endpoints share a few numbers, so the texts are kept.
  let text = ONE_IN[of];
  if (text === undefined) {
    text = shareOf(1, of);
    ONE_IN[of] = text;
  }
  return text;
}

/** Match `part` of `whole` packets. The kernel keeps a 31-bit fraction, and iptables prints 11 decimals (libxt_statistic.c). */
export function shareOf(part: number, whole: number): string {
  const fraction = Math.round((0x80000000 * part) / whole) / 0x80000000;
  return `-m statistic --mode random --probability ${fraction.toFixed(11)}`;
}

export const MASQUERADE = '-j MASQUERADE --random-fully';

/** REJECT with its default answer, as iptables-save prints it for the family. `byReset`: with a reset, for a rule of TCP. */
export function reject(family: 'IPv4' | 'IPv6', byReset = false): string {
  if (byReset) return '-j REJECT --reject-with tcp-reset';
  return `-j REJECT --reject-with ${family === 'IPv4' ? 'icmp-port-unreachable' : 'icmp6-port-unreachable'}`;
}

/** `0x4000`: the mark of a bit as iptables-save prints it. */
function markText(bit: number): string {
  return `0x${(2 ** bit).toString(16)}`;
}

function asCidr(net: Address | Cidr): Cidr {
  return net.includes('/') ? (net as Cidr) : hostCidr(net as Address);
}

/** The Service of a rule that was read from the kernel: our comments and kube-proxy's name it as `namespace/name[:port]`. */
export function ownerInComment(text: string): ServiceKey | undefined {
  const words = /--comment "([^"]*)"/.exec(text)?.[1]?.split(' ') ?? [];
  const id = words.find((word) => /^[a-z0-9][-a-z0-9.]*\/[a-z0-9][-a-z0-9.]*(:|$)/.test(word));
  return id?.split(':')[0];
}

// Rules that iptables and IPVS mode share (docs/semantics.md 7.1, 8.1): the mark for masquerading, and forwarding.

/** `0x4000/0x4000`: the mark of a bit, with that bit as the mask. */
export function markMatch(bit: number): string {
  return `${markText(bit)}/${markText(bit)}`;
}

/** KUBE-MARK-MASQ */
export function markRules(bit: number): Rule[] {
  return [rule([`-j MARK --set-xmark ${markMatch(bit)}`])];
}

/** The end of KUBE-POSTROUTING: marked packets are masqueraded. */
export function masqueradeMarked(bit: number): Rule[] {
  return [
    rule([`-m mark ! --mark ${markMatch(bit)} -j RETURN`]),
    // The mark is cleared, so that a packet that passes the stack again is not masqueraded twice.
    rule([`-j MARK --set-xmark ${markText(bit)}/0x0`]),
    rule([comment('kubernetes service traffic requiring SNAT'), MASQUERADE]),
  ];
}

/** KUBE-FORWARD: marked packets and replies pass. */
export function forwardRules(bit: number): Rule[] {
  const replies = '-m conntrack --ctstate RELATED,ESTABLISHED';
  return [
    rule([comment('kubernetes forwarding rules'), `-m mark --mark ${markMatch(bit)}`, jump('ACCEPT')]),
    rule([comment('kubernetes forwarding conntrack rule'), replies, jump('ACCEPT')]),
  ];
}
