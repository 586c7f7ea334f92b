/**
 * Texts that repeat: the names of nodes, namespaces, zones and ports are in very many objects. Each is made a string once, and found
 * again by its bytes, so that a text that is known costs no memory.
 */

/** Bytes of a text that is kept: names of the API have at most 63, or 253. */
const LONGEST = 253;
/** Texts that are kept; a further one replaces one of them. */
const MOST = 4096;

const known: string[] = [];

/** The text of some bytes of UTF-8, as one string for equal texts as long as it is kept. */
export function sharedText(from: Buffer, start: number, end: number): string {
  const length = end - start;
  if (length === 0) return '';
  if (length > LONGEST) return from.toString('utf8', start, end);
  // FNV-1a; of two texts with the same place the newer one is kept.
  let hash = 0x811c9dc5;
  for (let at = start; at < end; at++) hash = Math.imul(hash ^ (from[at] ?? 0), 0x01000193);
  const place = (hash ^ (hash >>> 15)) & (MOST - 1);
  if (known.length === 0) known.length = MOST;
  const there = known[place];
  if (there !== undefined && isAscii(there, from, start, length)) return there;
  const text = from.toString('utf8', start, end);
  known[place] = text;
  return text;
}

/** Whether the bytes are the text, in ASCII; another text is made anew each time. */
function isAscii(text: string, from: Buffer, start: number, length: number): boolean {
  if (text.length !== length) return false;
  for (let at = 0; at < length; at++) {
    const byte = from[start + at] ?? 0;
    if (byte > 0x7f || byte !== text.charCodeAt(at)) return false;
  }
  return true;
}
