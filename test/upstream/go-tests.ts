/** The cases of a Go test file, by their names: test functions, and the named rows of their tables. */

const FUNCTION = /^func (Test\w*)\(t \*testing\.T\)/;
const TEXT = String.raw`("(?:[^"\\]|\\.)*"|${'`[^`]*`'})`;
/** A row names itself by its first field. */
const FIELD = new RegExp(String.raw`^\t*(?:\{\s*)?(?:name|desc|description|testName|testcase|title):\s*${TEXT}`);
/** A subtest, or a row of a map: it ends where a line that is indented alike closes it. */
const BLOCK = new RegExp(String.raw`^\t*(?:t\.Run\(\s*${TEXT}|${TEXT}: \{$)`);

interface Row {
  readonly name: string;
  /** Tabs before the line. */
  readonly indent: number;
  /** Tabs before the line that closes it, at most. */
  readonly closes: number;
}

/**
 * The titles of a file's cases in its order, each once: `TestName` for a function without named rows, else
 * `TestName/row`, and `TestName/row/row` where rows have rows of their own.
 */
export function casesOf(source: string): string[] {
  const titles = new Set<string>();
  let name: string | undefined;
  let open: Row[] = [];
  for (const line of source.split('\n')) {
    const begins = FUNCTION.exec(line)?.[1];
    if (begins !== undefined) {
      name = begins;
      open = [];
      titles.add(name);
    }
    if (line === '}') name = undefined;
    if (name === undefined) continue;
    const indent = /^\t*/.exec(line)?.[0].length ?? 0;
    if (line[indent] === '}') open = open.filter(({ closes }) => closes < indent);
    const row = rowOf(line, indent);
    if (row === undefined) continue;
    open = [...open.filter((one) => one.indent < indent), row];
    titles.add([name, ...open.map((one) => one.name)].join('/'));
  }
  const all = [...titles];
  return all.filter((title) => !all.some((other) => other.startsWith(`${title}/`)));
}

function rowOf(line: string, indent: number): Row | undefined {
  const field = FIELD.exec(line)?.[1];
  if (field !== undefined) return { name: unquoted(field), indent, closes: indent - 1 };
  const [, subtest, key] = BLOCK.exec(line) ?? [];
  const text = subtest ?? key;
  return text === undefined ? undefined : { name: unquoted(text), indent, closes: indent };
}

function unquoted(text: string): string {
  return text.startsWith('`') ? text.slice(1, -1) : String(JSON.parse(text));
}
