/**
 * docs/explain.md: ten questions of operators, with the answers of slicewire on a real node in network namespaces.
 *
 *   node test/questions/transcript.ts      writes the document; as root
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Line, QUESTIONS, type Question } from './questions.ts';
import { Scene } from './scene.ts';

const FILE = fileURLToPath(new URL('../../docs/explain.md', import.meta.url));
/** The document has its transcript between these lines; what is above is written by hand. */
const BEGIN = '<!-- The rest is written by test/questions/transcript.ts -->';

export interface Told {
  readonly question: Question;
  readonly lines: readonly Line[];
}

/** Ask all questions, on one node. */
export async function tellAll(): Promise<readonly Told[]> {
  const scene = await Scene.create();
  const told: Told[] = [];
  try {
    let mode: Question['mode'] | undefined;
    for (const question of QUESTIONS) {
      if (question.mode !== mode) await scene.start(question.mode);
      mode = question.mode;
      told.push({ question, lines: await question.tell(scene) });
    }
  } finally {
    await scene.remove();
  }
  return told;
}

/** The part of the document that is generated. */
export function transcript(told: readonly Told[]): string {
  const parts = told.map(({ question, lines }, i) => {
    const { title, situation, mode } = question;
    const text = lines.map((line) =>
      'packet' in line ? `# ${line.packet}` : `$ ${line.command}\n${line.text}`.trimEnd(),
    );
    return `## ${i + 1}. ${title}\n\n${situation} (${mode} mode)\n\n\`\`\`console\n${text.join('\n\n')}\n\`\`\`\n`;
  });
  return parts.join('\n');
}

/** The generated part as it is in the document. */
export function transcriptInDocument(): string {
  return readFileSync(FILE, 'utf8').split(`${BEGIN}\n\n`)[1] ?? '';
}

/**
 * The text without what differs between two runs: times, durations, process ids, sizes, how many packets came in time, and the number of
 * writes of a sync, which removes the chains that have been unused for a second.
 */
export function masked(text: string): string {
  return text
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replace(/\b\d\d:\d\d:\d\d(\.\d+)?\b/g, 'TIME')
    .replace(/\b(pid|process) \d+/g, '$1 N')
    .replace(/\b\d+(\.\d+)? [KM]iB\b/g, 'SIZE')
    .replace(/\b(?:1\s+packet\s+came;\s+it|\d+\s+packets\s+came;\s+all)\s+took/g, 'N packets came; all took')
    .replace(/,\s+and\s+\d+\s+more\s+the\s+same\s+way/g, '')
    .replace(/\b\d+(\.\d+)? ?(ms|s|min|h|seconds?|minutes?)\b/g, 'DURATION')
    .replace(/\s+/g, ' ')
    .replace(/(complete \d+) \d+ (?=DURATION)/g, '$1 WRITES ');
}

if (import.meta.main) {
  const [head] = readFileSync(FILE, 'utf8').split(BEGIN);
  writeFileSync(FILE, `${head}${BEGIN}\n\n${transcript(await tellAll())}`);
}
