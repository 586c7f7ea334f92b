/** Mutations of text: lines, words and quotes, and pieces that have a meaning somewhere. */
import type { Random } from '../random.ts';
import { MAX_INPUT, mutateBytes } from './bytes.ts';

/** Texts that are odd as a name, an address, a number or a comment. */
export const ODD_TEXTS: readonly string[] = [
  '',
  ' ',
  '\n',
  '\r\n',
  '\0',
  '\t',
  '"',
  "'",
  '\\',
  '`id`',
  '$(id)',
  '; rm -rf /',
  '-j ACCEPT',
  'a\n-A INPUT -j ACCEPT',
  'COMMIT',
  '*nat',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'prototype',
  'valueOf',
  '../../etc/passwd',
  '%s%n',
  '\u202e',
  '\u{1f600}',
  '\ud800',
  'é',
  'ſ',
  'A'.repeat(64),
  'a'.repeat(254),
  '-',
  '.',
  '..',
  '/',
  'a/b/c',
  'NaN',
  'Infinity',
  '-0',
  '0x10',
  '1e3',
  '1e999',
  '99999999999999999999',
  '65535',
  '65536',
  '-1',
  '0',
  '4294967296',
  'null',
  'true',
  '~',
  '10.96.0.10',
  '010.096.0.010',
  '256.1.1.1',
  '1.2.3',
  '0.0.0.0',
  '127.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::ffff:10.0.0.1',
  'fe80::1%eth0',
  'fd00::0010',
  '1::2::3',
  '10.0.0.0/8',
  '10.0.0.1/8',
  '0.0.0.0/0',
  '::/0',
  '10.0.0.0/33',
  '10.0.0.0/-1',
  '10.0.0.0/',
  'TCP',
  'tcp',
  'SCTP',
  'None',
  'ExternalName',
  'Local',
  '2026-11-21T00:27:50Z',
  '+275760-09-13T00:00:00.001Z',
  '-271821-04-19T23:59:59Z',
];

/** Pieces of grammars: YAML, JSON, HTTP, iptables. */
const PIECES: readonly string[] = [
  '---\n',
  '...\n',
  '&a ',
  '*a',
  '<<: *a\n',
  '!!binary ',
  '!!js/function ',
  '? ',
  '| \n',
  '>-\n',
  '- ',
  ': ',
  '# ',
  '{',
  '}',
  '[',
  ']',
  ',',
  '%YAML 9.9\n',
  '\ufeff',
  '{"__proto__":1}',
  ' HTTP/1.1\r\n',
  '\r\n\r\n',
  'Content-Length: 99999999999999999999\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Host: localhost\r\n',
  '?from=a&from=b',
  '%00',
  '%ff',
  '%',
  '! ',
  '-m ',
  '--constructor ',
  'constructor',
  '__proto__',
  '[0:0]',
  "# Table `nat' is incompatible, use 'nft' tool.\n",
];

type Mutation = (random: Random, text: string, seeds: readonly string[]) => string;

const insertPiece: Mutation = (random, text) => {
  const at = random.below(text.length + 1);
  return text.slice(0, at) + random.pick(random.once(2) ? PIECES : ODD_TEXTS) + text.slice(at);
};
/** Puts an odd text in the place of a word. */
const replaceWord: Mutation = (random, text) => {
  const words = [...text.matchAll(/[^\s"':,=[\]{}]+/g)];
  if (words.length === 0) return text + random.pick(ODD_TEXTS);
  const word = random.pick(words);
  return text.slice(0, word.index) + random.pick(ODD_TEXTS) + text.slice(word.index + word[0].length);
};
const moveLine: Mutation = (random, text, seeds) => {
  const lines = text.split('\n');
  const others = random.once(3) ? random.pick(seeds).split('\n') : lines;
  const from = random.below(lines.length);
  switch (random.below(3)) {
    case 0:
      lines.splice(from, 1);
      break;
    case 1:
      lines.splice(from, 0, random.pick(others));
      break;
    default:
      lines[from] = random.pick(others);
  }
  return lines.join('\n');
};
const indent: Mutation = (random, text) => {
  const lines = text.split('\n');
  const at = random.below(lines.length);
  lines[at] = random.once(2) ? `  ${lines[at]}` : (lines[at] ?? '').replace(/^ {1,2}/, '');
  return lines.join('\n');
};
/** Something a thousand times over: depth, or length. Rare, because it costs much. */
const pileUp: Mutation = (random, text) => {
  if (!random.once(40)) return insertPiece(random, text, []);
  const piece = random.pick(['[', '{"a":', '- ', '  ', '&a [*a,', 'a', '\n', '"', '{', '! ', '*a ', '<<: ', '? ']);
  const at = random.below(text.length + 1);
  return text.slice(0, at) + piece.repeat(random.pick([10, 100, 1000, 10_000])) + text.slice(at);
};

const MUTATIONS: readonly Mutation[] = [insertPiece, replaceWord, replaceWord, moveLine, moveLine, indent, pileUp];

/** One to four mutations of one of the seeds; some of its bytes. */
export function mutateText(random: Random, seeds: readonly Buffer[]): Buffer {
  const seed = random.pick(seeds);
  if (random.once(8)) return mutateBytes(random, seed, seeds);
  const texts = [random.pick(seeds).toString(), random.pick(seeds).toString()];
  let text = seed.toString();
  for (let left = 1 + random.below(4); left > 0; left--) text = random.pick(MUTATIONS)(random, text, texts);
  const bytes = Buffer.from(text);
  return (random.once(8) ? mutateBytes(random, bytes, seeds) : bytes).subarray(0, MAX_INPUT);
}
