/** The answer of `slicewire verify`. */
import * as z from 'zod';
import { countText, listText, numberText, wrapped } from './format.ts';
import { answer, answeredBy, family } from './schema-common.ts';

const differenceSchema = z.object({
  family: family.nullable(),
  object: z.string().describe('the kernel object'),
  service: z.string().describe('namespace/name of its Service; "" when it is shared or foreign'),
  kind: z.enum(['missing', 'changed', 'foreign', 'order']),
  wanted: z.array(z.string()).describe('lines that are desired and not installed'),
  found: z.array(z.string()).describe('lines that are installed and not desired'),
  because: z.string().describe('why it may differ without a fault; "" when another program wrote'),
  causes: z.array(z.string()).optional().describe('with --of: why, as sentences'),
  repaired: z.boolean().describe('slicewire repairs it after its next reading of the kernel'),
});

export const verificationSchema = z.object({
  ...answer('Verification'),
  by: answeredBy,
  equal: z.boolean(),
  compared: z.number().int().describe('number of kernel objects that were compared'),
  differences: z.array(differenceSchema).describe('the first 1000'),
  count: z.number().int().describe('number of all differences'),
  onPurpose: z
    .array(differenceSchema)
    .optional()
    .describe(
      'with --of: connections that the other proxy leads elsewhere on purpose, which are no differences; the first 1000',
    ),
  onPurposeCount: z.number().int().optional().describe('with --of: number of all those'),
  senders: z
    .array(z.enum(['pod', 'node', 'outside']))
    .optional()
    .describe('with --of: the senders that were asked for'),
  notes: z
    .array(z.string())
    .optional()
    .describe('with --of: rules that were not interpreted, and those by which other programs filter; the first 20'),
  lastWriter: z
    .object({ pid: z.number().int(), name: z.string(), isSlicewire: z.boolean() })
    .nullable()
    .describe("the program that changed the kernel's nft ruleset last; null where the kernel does not know"),
});

export type Verification = z.infer<typeof verificationSchema>;
export type VerifiedDifference = z.infer<typeof differenceSchema>;

/** Lines of one difference; `-o json` has all. */
const MAX_LINES = 12;

export function verificationText(answer: Verification): string {
  const { differences, count, by } = answer;
  if (by.rules !== undefined) return ofOthersText(answer, by.rules);
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

/** Of the rules of another proxy. */
function ofOthersText(answer: Verification, rules: string): string {
  const { by, equal, compared, count, differences, onPurpose = [], onPurposeCount = 0, notes = [] } = answer;
  const senders = answer.senders?.map((sender) => SENDERS[sender]) ?? [];
  const asked = `${countText(compared, 'connection')} of ${listText(senders)} followed`;
  const verdict = equal
    ? `${rules}'s rules do what the objects ask for: ${asked}.`
    : `${rules}'s rules do not do what the objects ask for: ${asked}, ${numberText(count)} of them go elsewhere.`;
  const more = count - differences.length;
  const parts = [
    [
      ...wrapped(verdict),
      ...wrapped(
        `Read on node ${by.node}, where ${rules} runs in ${by.mode} mode, as of ${by.at}. Nothing was written.`,
      ),
    ],
    ...alike(differences).map((same) => connectionLines(same, 'should be')),
    more > 0 ? [`… and ${countText(more, 'more connection')}.`] : [],
    onPurpose.length === 0 ? [] : wrapped(`${rules} leads these elsewhere on purpose, so they are no differences:`),
    ...alike(onPurpose).map((same) => connectionLines(same, 'with slicewire it is')),
    onPurposeCount > onPurpose.length
      ? [`… and ${countText(onPurposeCount - onPurpose.length, 'more connection')}.`]
      : [],
    notes.length === 0 ? [] : ['Notes', ...notes.flatMap((note) => wrapped(note, '  - ', '    '))],
  ];
  return `${parts
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')}\n`;
}

const SENDERS: Readonly<Record<'pod' | 'node' | 'outside', string>> = {
  pod: 'a Pod of this node',
  node: 'the node itself',
  outside: 'clients outside',
};

function alike(differences: readonly VerifiedDifference[]): (readonly VerifiedDifference[])[] {
  const key = ({ service, found, wanted, causes }: VerifiedDifference) =>
    JSON.stringify([service, found, wanted, causes]);
  return [...Map.groupBy(differences, key).values()];
}

/** Connections of a Service that go elsewhere in the same way. */
function connectionLines(alike: readonly VerifiedDifference[], other: string): string[] {
  const [first] = alike;
  if (first === undefined) return [];
  const { service, found, wanted, causes = [] } = first;
  const left = alike.length - MAX_LINES;
  return [
    service === '' ? 'No Service' : `Service ${service}`,
    ...alike.slice(0, MAX_LINES).map(({ object }) => `  ${object}`),
    ...(left > 0 ? [`  … and ${countText(left, 'more connection')}`] : []),
    ...found.flatMap((text) => wrapped(`is ${text}`, '    ', '    ')),
    ...wanted.flatMap((text) => wrapped(`${other} ${text}`, '    ', '    ')),
    ...causes.flatMap((cause) => wrapped(cause, '    ', '    ')),
  ];
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

/** A sentence for each reason that occurs. */
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
