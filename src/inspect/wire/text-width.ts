/** Text of limited width. Pure. */

/** Two columns of it are the indentation of a section. */
const WIDTH = 98;

/** Lines of a text, broken at spaces. `first` begins the first line, `rest` the others. */
export function wrapped(text: string, first = '', rest = ''): string[] {
  const lines: string[] = [];
  let line = first;
  let isEmpty = true;
  for (const word of text.split(' ')) {
    if (!isEmpty && line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = rest;
      isEmpty = true;
    }
    line += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...lines, line];
}

/** Rows as lines with aligned columns. Numbers stand at the right of their column. */
export function columns(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length);
  }
  return rows.map((row) => {
    const cells = row.map((cell, i) => {
      const width = widths[i] ?? 0;
      return NUMBER.test(cell) ? cell.padStart(width) : cell.padEnd(width);
    });
    return cells.join('  ').trimEnd();
  });
}

const NUMBER = /^[\d,.]+(?: ms| s)?$/;
