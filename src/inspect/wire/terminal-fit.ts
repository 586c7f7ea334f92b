/** A text as a terminal can show it. Pure. */

export interface Size {
  readonly columns: number;
  readonly rows: number;
}

/** C0 and C1 control characters: names and messages of others could move the cursor with them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out.
const CONTROL = /[\x00-\x1f\x7f-\x9f]/g;
/** What the rest of a broken line has more of indentation than its beginning. */
const HANG = 2;

/** Lines that are no wider than the terminal, and one fewer than it has rows: the cursor stands below them. */
export function fitted(text: string, { columns, rows }: Size): string {
  const lines = text.split('\n').flatMap((line) => brokenAt(line.replace(CONTROL, '\ufffd'), Math.max(columns, 10)));
  const room = Math.max(rows - 1, 1);
  if (lines.length <= room) return lines.join('\n');
  const shown = lines.slice(0, room - 1);
  const note = `… ${lines.length - shown.length} more lines: a taller window shows them`;
  return [...shown, note.slice(0, columns)].join('\n');
}

/** The pieces of a line, broken at blanks where there are some. */
function brokenAt(line: string, width: number): string[] {
  const indent = Math.min(/^ */.exec(line)?.[0].length ?? 0, width >> 1);
  const begin = ' '.repeat(Math.min(indent + HANG, width >> 1));
  const pieces: string[] = [];
  let rest = line;
  while (rest.length > width) {
    const blank = rest.lastIndexOf(' ', width);
    const end = blank > begin.length ? blank : width;
    pieces.push(rest.slice(0, end).trimEnd());
    rest = `${begin}${rest.slice(end).trimStart()}`;
  }
  return [...pieces, rest];
}
