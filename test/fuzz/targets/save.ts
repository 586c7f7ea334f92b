/** The output of iptables-save, and the rules in it. */
import { parseRule } from '../../../src/inspect/explain/rule.ts';
import { targetOf } from '../../../src/proxy/modes/netfilter/jumps.ts';
import { SaveReader } from '../../../src/proxy/modes/netfilter/restore-text.ts';
import { ownerInComment } from '../../../src/proxy/modes/netfilter/rules.ts';
import { corpusFiles } from '../corpus/read.ts';
import { mutateText } from '../mutate/text.ts';
import { soundAddress, soundCidr, soundNumber, soundPort, soundPrototypes } from '../sound/text.ts';
import { shown, sure, type Target } from '../target.ts';

const MAX_UINT32 = 2 ** 32 - 1;

/** A rule that was read, or said to be not understood. */
export function soundRule(text: string): void {
  const rule = parseRule(text);
  sure(typeof rule.unknown === 'string' || rule.unknown === undefined, () => `unknown: ${shown(rule.unknown)}`);
  sure(typeof rule.target === 'string', () => `target: ${shown(rule.target)}`);
  // What is not understood may be anything.
  if (rule.unknown !== undefined) return;
  sure(rule.chance >= 0 && rule.chance <= 1, () => `chance: ${rule.chance} of ${text}`);
  if (rule.setMark !== undefined) {
    soundNumber(rule.setMark.value, 'setMark.value', 0, MAX_UINT32);
    soundNumber(rule.setMark.mask, 'setMark.mask', 0, MAX_UINT32);
  }
  if (rule.to !== undefined) {
    soundAddress(rule.to.address, 'to.address');
    soundPort(rule.to.port, 'to.port');
  }
  for (const match of rule.matches) {
    if (match.of === 'port') {
      soundPort(match.first, 'port.first', 0);
      soundPort(match.last, 'port.last', 0);
    } else if (match.of === 'mark') {
      soundNumber(match.value, 'mark.value', 0, MAX_UINT32);
      soundNumber(match.mask, 'mark.mask', 0, MAX_UINT32);
    } else if ('net' in match) soundCidr(match.net.cidr, 'net');
  }
}

export const save: Target = {
  name: 'iptables-save',
  declared: [SyntaxError],
  seeds: corpusFiles('save'),
  mutate: mutateText,
  run(input) {
    const reader = new SaveReader();
    let rules = 0;
    for (const line of input.toString().split('\n')) {
      reader.read(line);
      if (line.startsWith('-A ')) rules += 1;
    }
    const tables = reader.end();
    for (const chains of tables.values()) {
      for (const texts of chains.values()) {
        for (const text of texts) {
          rules -= 1;
          soundRule(text);
          sure(typeof targetOf(text) === 'string', () => `target of ${text}`);
          const owner = ownerInComment(text);
          sure(owner === undefined || typeof owner === 'string', () => `owner of ${text}`);
        }
      }
    }
    sure(rules === 0, () => `lost: ${rules} rules of the text`);
    soundPrototypes();
  },
};
