/** Pages of Markdown, for tests of what they say. */
import { readFileSync } from 'node:fs';

const ROOT = new URL('../../../', import.meta.url);

export interface Page {
  /** From the root of the repository. */
  readonly path: string;
  readonly text: string;
}

export const pageOf = (path: string): Page => ({ path, text: readFileSync(new URL(path, ROOT), 'utf8') });

/** The blocks of code in one language. */
export function blocksOf({ text }: Page, language: string): string[] {
  return [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)]
    .filter(([, name]) => name === language)
    .map(([, , block = '']) => block);
}

/** The languages of a page's blocks. */
export const languagesOf = ({ text }: Page): string[] =>
  [...text.matchAll(/^```(\w+)$/gm)].map(([, name = '']) => name);

/** The anchors of a page's headings, as GitHub makes them. */
export function anchorsOf({ text }: Page): string[] {
  const headings = text.replace(/^```[\s\S]*?^```$/gm, '').matchAll(/^#+ (.*)$/gm);
  return [...headings].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

/** The targets of a page's links into the repository: a path from the root, and an anchor. */
export function linksOf({ path, text }: Page): { readonly path: string; readonly anchor: string }[] {
  const targets = [...text.matchAll(/\]\((?!https?:)([^)\s]+)\)/g)].map(([, target = '']) => target);
  return targets.map((target) => {
    const [file = '', anchor = ''] = target.split('#');
    const from = new URL(path, 'file:///');
    return { path: file === '' ? path : new URL(file, from).pathname.slice(1), anchor };
  });
}

/** The commands of a block of shell, each as its words; comments, prompts of `for` and the like stay as they are. */
export function commandsOf(block: string): string[][] {
  return block
    .replaceAll('\\\n', ' ')
    .split('\n')
    .map(wordsOf)
    .filter((words) => words.length > 0);
}

/** The words of a line as a shell splits it: quotes go, a comment ends it. */
export function wordsOf(line: string): string[] {
  const words: string[] = [];
  const pattern = /\s*(?:(#.*$)|((?:'[^']*'|"[^"]*"|[^\s'"])+))/gy;
  for (const [, comment, word = ''] of line.matchAll(pattern)) {
    if (comment !== undefined) break;
    words.push(word.replace(/'([^']*)'|"([^"]*)"/g, (_, single, double) => single ?? double ?? ''));
  }
  return words;
}
