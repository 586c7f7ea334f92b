/** The screen of a terminal: the control sequences that shells and slicewire write (ECMA-48, and xterm's private modes). */

const SEQUENCE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is read.
  /\x1b\[([?>=]?)([\d;]*)([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>78cDEHM]|[\x00-\x1f]|[^\x00-\x1f\x1b]/gu;

/** A sequence that is not complete, at the end. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above.
const OPEN = /\x1b(?:\[[^@-~]*|\][^\x07]*)?$/;

export class TerminalScreen {
  isCursorShown = true;
  #rows: number;
  #columns: number;
  #lines: string[][] = [[]];
  /** From the top of the screen. */
  #row = 0;
  #column = 0;
  /** Characters of a sequence that is not complete. */
  #rest = '';

  constructor(rows: number, columns: number) {
    this.#rows = rows;
    this.#columns = columns;
  }

  /** What is seen, without blanks at the ends. */
  get text(): string {
    return this.lines.join('\n').trimEnd();
  }

  get lines(): readonly string[] {
    return this.#lines.map((line) =>
      Array.from(line, (char) => char ?? ' ')
        .join('')
        .trimEnd(),
    );
  }

  resize(rows: number, columns: number): void {
    this.#rows = rows;
    this.#columns = columns;
  }

  write(text: string): void {
    const whole = this.#rest + text;
    const cut = OPEN.exec(whole)?.index ?? whole.length;
    this.#rest = whole.slice(cut);
    for (const [token, mode = '', numbers = '', final] of whole.slice(0, cut).matchAll(SEQUENCE)) {
      if (final !== undefined) this.#control(mode, numbers.split(';').map(Number), final);
      else if (token === '\n') this.#feed();
      else if (token === '\r') this.#column = 0;
      else if (token === '\b') this.#column = Math.max(0, this.#column - 1);
      else if (token >= ' ') this.#put(token);
    }
  }

  #put(char: string): void {
    if (this.#column >= this.#columns) {
      this.#column = 0;
      this.#feed();
    }
    this.#line(this.#row)[this.#column] = char;
    this.#column++;
  }

  #feed(): void {
    if (this.#row + 1 < this.#rows) this.#row++;
    else this.#lines.shift();
    this.#line(this.#row);
  }

  #line(at: number): string[] {
    while (this.#lines.length <= at) this.#lines.push([]);
    return this.#lines[at] ?? [];
  }

  #control(mode: string, [first = 0, second = 0]: readonly number[], final: string): void {
    if (mode === '?' && first === 25) this.isCursorShown = final === 'h';
    if (mode !== '') return;
    const count = Math.max(1, first);
    if (final === 'A') this.#row = Math.max(0, this.#row - count);
    else if (final === 'B') this.#row = Math.min(this.#rows - 1, this.#row + count);
    else if (final === 'C') this.#column = Math.min(this.#columns - 1, this.#column + count);
    else if (final === 'D') this.#column = Math.max(0, this.#column - count);
    else if (final === 'G') this.#column = count - 1;
    else if (final === 'H') [this.#row, this.#column] = [count - 1, Math.max(1, second) - 1];
    else if (final === 'K') this.#eraseInLine(first);
    else if (final === 'J') this.#eraseInScreen(first);
    else if (final === 'P') this.#line(this.#row).splice(this.#column, count);
  }

  /** 0: to the end, 1: from the beginning, 2: all. */
  #eraseInLine(part: number): void {
    const line = this.#line(this.#row);
    if (part === 0) line.length = Math.min(line.length, this.#column);
    else if (part === 1) line.fill(' ', 0, this.#column + 1);
    else line.length = 0;
  }

  #eraseInScreen(part: number): void {
    if (part === 2 || part === 3) this.#lines = [[]];
    else if (part === 0) {
      this.#eraseInLine(0);
      this.#lines.length = Math.min(this.#lines.length, this.#row + 1);
    }
  }
}
