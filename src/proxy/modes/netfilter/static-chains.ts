/** Rules that iptables and IPVS mode share (docs/semantics.md 7.1, 8.1): the mark for masquerading, and forwarding. Pure. */
import { comment, jump, MASQUERADE, markText, type Rule, rule } from './rules.ts';

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
