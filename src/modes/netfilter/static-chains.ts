/** Rules that both modes write alike (docs/semantics.md 7.1, 8.1): the mark that asks for masquerading, and what is forwarded. Pure. */
import { comment, jump, MASQUERADE, markText, type Rule, rule } from './rules.ts';

/** `0x4000/0x4000`: the mark of a bit, and it alone. */
export function markMatch(bit: number): string {
  return `${markText(bit)}/${markText(bit)}`;
}

/** KUBE-MARK-MASQ */
export function markRules(bit: number): Rule[] {
  return [rule([`-j MARK --set-xmark ${markMatch(bit)}`])];
}

/** The end of KUBE-POSTROUTING: what is marked is masqueraded. */
export function masqueradeMarked(bit: number): Rule[] {
  return [
    rule([`-m mark ! --mark ${markMatch(bit)} -j RETURN`]),
    // Without the mark the packet is not masqueraded again when it comes back through the stack.
    rule([`-j MARK --set-xmark ${markText(bit)}/0x0`]),
    rule([comment('kubernetes service traffic requiring SNAT'), MASQUERADE]),
  ];
}

/** KUBE-FORWARD: what is marked, and replies, pass. */
export function forwardRules(bit: number): Rule[] {
  const replies = '-m conntrack --ctstate RELATED,ESTABLISHED';
  return [
    rule([comment('kubernetes forwarding rules'), `-m mark --mark ${markMatch(bit)}`, jump('ACCEPT')]),
    rule([comment('kubernetes forwarding conntrack rule'), replies, jump('ACCEPT')]),
  ];
}
