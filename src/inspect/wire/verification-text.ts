/** A verification as text for people. Pure. */

import { countText, numberText } from './format.ts';
import { wrapped } from './text-width.ts';
import type { Verification, VerifiedDifference } from './verification.ts';

/** Lines of one difference; `-o json` has all. */
const MAX_LINES = 12;

export function verificationText(answer: Verification): string {
  const { differences, count, by } = answer;
  const more = count - differences.length;
  const parts = [
    [...wrapped(verdict(answer)), ...wrapped(`Compared on node ${by.node} in ${by.mode} mode, as of ${by.at}.`)],
    ...differences.map(differenceLines),
    more > 0 ? [`… and ${countText(more, 'more difference')}.`] : [],
    count === 0 ? [] : [...writerLines(answer), ...consequences(answer)],
  ];
  return `${parts
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')}\n`;
}

function verdict({ equal, compared, count }: Verification): string {
  const objects = `${countText(compared, 'object')} compared`;
  if (!equal) {
    const verb = count === 1 ? 'kernel object differs' : 'kernel objects differ';
    return `${numberText(count)} ${verb} from the desired state: ${objects}.`;
  }
  const waiting = count === 0 ? '' : `, ${numberText(count)} of them left until connections end`;
  return `The kernel is as desired: ${objects}${waiting}.`;
}

const KINDS: Readonly<Record<VerifiedDifference['kind'], string>> = {
  missing: 'is missing',
  changed: 'differs',
  foreign: 'is not desired',
  order: 'has another order',
};

const REASONS: ReadonlyMap<string, string> = new Map([
  ['not written yet', 'is not written yet'],
  ['refused by the kernel', 'is refused by the kernel'],
  ['waits for connections to end', 'is removed when its connections end'],
]);

function differenceLines({ family, object, service, kind, wanted, found, because }: VerifiedDifference): string[] {
  const owner = service === '' ? '' : ` of Service ${service}`;
  const head = `${family === null ? '' : `${family} `}${object}${owner} ${REASONS.get(because) ?? KINDS[kind]}`;
  const lines = [...found.map((line) => `  - ${line}`), ...wanted.map((line) => `  + ${line}`)];
  const left = lines.length - MAX_LINES;
  return [head, ...lines.slice(0, MAX_LINES), ...(left > 0 ? [`  … and ${countText(left, 'more line')}`] : [])];
}

function writerLines({ lastWriter }: Verification): string[] {
  if (lastWriter === null) return [];
  const { name, pid, isSlicewire } = lastWriter;
  if (isSlicewire)
    return wrapped('The program that changed rules last is slicewire; who changed them before is not known.');
  return wrapped(`The program that changed rules last is ${name} (process ${pid}).`);
}

/** What follows, for each reason that occurs. */
function consequences({ differences, by }: Verification): string[] {
  const has = (is: (one: VerifiedDifference) => boolean) => differences.some(is);
  const isTheirs = ({ because }: VerifiedDifference) => because === '';
  const sentences = [
    [has((one) => isTheirs(one) && one.repaired), repair(by.who)],
    [
      has((one) => isTheirs(one) && !one.repaired),
      'slicewire does not repair a rule of nftables that was replaced under its own comment, or a set of another program in its table. Delete them: slicewire writes again what is missing then.',
    ],
    [has(({ because }) => because === 'not written yet'), 'The next sync writes what is not written yet.'],
    [
      has(({ because }) => because === 'refused by the kernel'),
      'slicewire tries again to write what the kernel refuses; "slicewire status" has the kernel\'s words.',
    ],
  ] as const;
  return sentences.flatMap(([is, sentence]) => (is ? wrapped(sentence) : []));
}

function repair(who: Verification['by']['who']): string {
  if (who === 'command') return '"slicewire plan" shows the writes that repair it; no agent was asked.';
  return 'slicewire repairs what another program changed after its next reading of the kernel, at the latest after its sync period.';
}
