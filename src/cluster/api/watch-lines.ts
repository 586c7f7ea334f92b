/** The lines of a watch, from the pieces in which they come. */

/** Characters of a line: an object has at most 1.5 MB in etcd, and its JSON some times as many. */
export const MAX_LINE = 16 * 1024 * 1024;

/** A watch that cannot be read on: an event is too long, or is cut off. */
export class BrokenStream extends Error {}

/** Lines without their ends; empty ones are left out. Throws BrokenStream. */
export async function* linesOf(pieces: AsyncIterable<string>, longest = MAX_LINE): AsyncGenerator<string> {
  // A long line comes in many pieces: they are joined once, at its end.
  let begun: string[] = [];
  let length = 0;
  for await (const piece of pieces) {
    let start = 0;
    for (let end = piece.indexOf('\n'); end >= 0; end = piece.indexOf('\n', start)) {
      const line = begun.join('') + piece.slice(start, end);
      if (line.length > longest) throw tooLong(longest);
      if (line !== '') yield line;
      begun = [];
      length = 0;
      start = end + 1;
    }
    if (start === piece.length) continue;
    begun.push(start === 0 ? piece : piece.slice(start));
    length += piece.length - start;
    if (length > longest) throw tooLong(longest);
  }
  if (length > 0) throw new BrokenStream('was cut off in the middle of an event');
}

function tooLong(longest: number): BrokenStream {
  return new BrokenStream(`sent an event of more than ${longest} characters`);
}
