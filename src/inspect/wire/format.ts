/** Times, numbers, lists and lines of limited width in texts for people. Pure; times of day are of this machine's time zone. */

/** `12:03:04.567`, with the day before it where it is another day than that of `now`. Both are moments of an answer. */
export function clockTime(moment: string, now: string): string {
  const at = new Date(moment);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, '0')}`;
  return at.toDateString() === new Date(now).toDateString() ? time : `${dayText(at)} ${time}`;
}

function dayText(at: Date): string {
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

function two(number: number): string {
  return String(number).padStart(2, '0');
}

/** `2 s`, `3 min`, `4 h 5 min`, `6 d 7 h`: the time from one moment to another. */
export function timeBetween(from: string, to: string): string {
  return timeText(Date.parse(to) - Date.parse(from));
}

/** The same, of a time in milliseconds. */
export function timeText(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return withRest(`${hours} h`, minutes % 60, 'min');
  return withRest(`${Math.floor(hours / 24)} d`, hours % 24, 'h');
}

function withRest(whole: string, rest: number, unit: string): string {
  return rest === 0 ? whole : `${whole} ${rest} ${unit}`;
}

/** `0.4 ms`, `12 ms`, `3.1 s`. */
export function millisecondsText(milliseconds: number): string {
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${milliseconds >= 10 || milliseconds === 0 ? Math.round(milliseconds) : milliseconds.toFixed(1)} ms`;
}

/** `45 s`, `12 min`, `2 h 59 min`: a time that is left. */
export function secondsText(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : withRest(`${Math.floor(minutes / 60)} h`, minutes % 60, 'min');
}

/** `1,234`, of a whole number. `toLocaleString` would load 8 MB of data about languages, which the agent would keep. */
export function numberText(number: number): string {
  return String(number).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** `1 Service`, `2 Services`, `1,234 Services` */
export function countText(number: number, one: string, more = `${one}s`): string {
  return `${numberText(number)} ${number === 1 ? one : more}`;
}

/** `800 bytes`, `1.5 KiB`, `7.9 MiB` */
export function bytesText(bytes: number): string {
  if (bytes < 1024) return countText(bytes, 'byte');
  const kibibytes = bytes / 1024;
  return kibibytes < 1024 ? `${kibibytes.toFixed(1)} KiB` : `${(kibibytes / 1024).toFixed(1)} MiB`;
}

/** `a`, `a and b`, `a, b and c`, and with a limit `a, b and 3 more`. */
export function listText(words: readonly string[], limit = words.length): string {
  if (words.length > limit) return firstOf(words, limit);
  return [words.slice(0, -1).join(', '), words.at(-1) ?? ''].filter((part) => part !== '').join(' and ');
}

/** `a, b`, or `a, b and 3 more`: a list that stands after a colon. */
export function firstOf(names: readonly string[], most: number): string {
  const more = names.length > most ? ` and ${names.length - most} more` : '';
  return `${names.slice(0, most).join(', ')}${more}`;
}

/** A sentence's first letter; an address or a name stays as it is. */
export function capitalized(text: string): string {
  return /^[a-z]+[ ,']/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
}

/** The text, or its first characters with `…`. */
export function cutText(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** `33.3 %` */
export function percentText(share: number): string {
  return `${Number((share * 100).toFixed(1))} %`;
}

/** Columns of a line, without the two by which a section is indented. */
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

/** Rows as lines with aligned columns, numbers at the right of their column. */
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
