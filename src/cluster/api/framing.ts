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

// The frames of a watch in protobuf, from the pieces in which they come: four bytes of length, big endian, and the event
// (`NewLengthDelimitedFrameWriter` of k8s.io/apimachinery pkg/util/framer).

/** Bytes of a frame: client-go has the same bound (pkg/runtime/serializer/streaming). */
export const MAX_FRAME = 16 * 1024 * 1024;

/** Bytes of a length. */
const HEAD = 4;

/** Frames without their lengths. Each is a part of the received bytes, which nobody changes. Throws BrokenStream. */
export async function* framesOf(pieces: AsyncIterable<Buffer>, longest = MAX_FRAME): AsyncGenerator<Buffer> {
  // A long frame comes in many pieces: they are joined once, when all of them are there.
  let begun: Buffer[] = [];
  let length = 0;
  let wanted = HEAD;
  for await (const piece of pieces) {
    begun.push(piece);
    length += piece.length;
    if (length < wanted) continue;
    const bytes = begun.length === 1 ? piece : Buffer.concat(begun, length);
    let at = 0;
    for (wanted = HEAD; length - at >= wanted; wanted = HEAD) {
      const size = bytes.readUInt32BE(at);
      if (size > longest) throw new BrokenStream(`sent an event of more than ${longest} bytes`);
      wanted += size;
      if (length - at < wanted) break;
      yield bytes.subarray(at + HEAD, at + wanted);
      at += wanted;
    }
    begun = at === length ? [] : [bytes.subarray(at)];
    length -= at;
  }
  if (length > 0) throw new BrokenStream('was cut off in the middle of an event');
}
