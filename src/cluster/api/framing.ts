/**
 * Splits the stream of a watch into events: lines of JSON, or frames of protobuf. A frame is four bytes of length, big endian, and the
 * event (`NewLengthDelimitedFrameWriter` of k8s.io/apimachinery pkg/util/framer).
 */

/** Limit of characters of a line: an object has at most 1.5 MB in etcd, and its JSON some times as many. */
export const MAX_LINE = 16 * 1024 * 1024;

/** An event is too long, or is cut off: the rest of the watch cannot be read. */
export class BrokenStream extends Error {}

/** Lines without their ends; empty ones are left out. Throws BrokenStream. */
export async function* linesOf(pieces: AsyncIterable<string>, maxLength = MAX_LINE): AsyncGenerator<string> {
  // The pieces of a long line are joined once, at its end.
  let pending: string[] = [];
  let length = 0;
  for await (const piece of pieces) {
    let start = 0;
    for (let end = piece.indexOf('\n'); end >= 0; end = piece.indexOf('\n', start)) {
      const line = pending.join('') + piece.slice(start, end);
      if (line.length > maxLength) throw tooLong(maxLength);
      if (line !== '') yield line;
      pending = [];
      length = 0;
      start = end + 1;
    }
    if (start === piece.length) continue;
    pending.push(start === 0 ? piece : piece.slice(start));
    length += piece.length - start;
    if (length > maxLength) throw tooLong(maxLength);
  }
  if (length > 0) throw new BrokenStream('was cut off in the middle of an event');
}

function tooLong(maxLength: number): BrokenStream {
  return new BrokenStream(`sent an event of more than ${maxLength} characters`);
}

/** Limit of bytes of a frame, as in client-go (pkg/runtime/serializer/streaming). */
export const MAX_FRAME = 16 * 1024 * 1024;

/** Bytes of the length before a frame. */
const LENGTH_BYTES = 4;

/** Frames without their lengths. Each shares the memory of the received bytes. Throws BrokenStream. */
export async function* framesOf(pieces: AsyncIterable<Buffer>, maxLength = MAX_FRAME): AsyncGenerator<Buffer> {
  // The pieces of a long frame are joined once, when all of them have arrived.
  let pending: Buffer[] = [];
  let length = 0;
  let needed = LENGTH_BYTES;
  for await (const piece of pieces) {
    pending.push(piece);
    length += piece.length;
    if (length < needed) continue;
    const bytes = pending.length === 1 ? piece : Buffer.concat(pending, length);
    let at = 0;
    for (needed = LENGTH_BYTES; length - at >= needed; needed = LENGTH_BYTES) {
      const size = bytes.readUInt32BE(at);
      if (size > maxLength) throw new BrokenStream(`sent an event of more than ${maxLength} bytes`);
      needed += size;
      if (length - at < needed) break;
      yield bytes.subarray(at + LENGTH_BYTES, at + needed);
      at += needed;
    }
    pending = at === length ? [] : [bytes.subarray(at)];
    length -= at;
  }
  if (length > 0) throw new BrokenStream('was cut off in the middle of an event');
}
