/** The numbers of docs/semantics.md, and links to them. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const SEMANTICS = fileURLToPath(new URL('../../../docs/semantics.md', import.meta.url));

/** The anchor that GitHub gives to a heading of Markdown. */
export function anchorOf(heading: string): string {
  return heading
    .replaceAll('`', '')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-');
}

/** Anchors of a Markdown text's headings; a second heading of one text gets -1. */
export function anchorsIn(markdown: string): Set<string> {
  const found = new Set<string>();
  for (const [, heading = ''] of markdown.replace(/^```.*?^```/gms, '').matchAll(/^#+ +(.+?) *$/gm)) {
    const anchor = anchorOf(heading);
    let unique = anchor;
    for (let n = 1; found.has(unique); n++) unique = `${anchor}-${n}`;
    found.add(unique);
  }
  return found;
}

/** Anchors by number: of chapters (`3`), sections (`3.5`) and rows of their tables (`3.5.2`, which leads to the section). */
export function semanticsAnchors(): ReadonlyMap<string, string> {
  const anchors = new Map<string, string>();
  let section = '';
  for (const line of readFileSync(SEMANTICS, 'utf8').split('\n')) {
    const heading = /^##+ ((\d+(?:\.\d+)*)\.? .+)$/.exec(line);
    const row = /^\| (\d+\.\d+\.\d+) \|/.exec(line);
    if (heading !== null) {
      section = anchorOf(heading[1] ?? '');
      anchors.set(heading[2] ?? '', section);
    } else if (row !== null) anchors.set(row[1] ?? '', section);
  }
  return anchors;
}
