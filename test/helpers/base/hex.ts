/** Bytes from hexadecimal digits; white space is for the reader. */
export function hex(text: string): Buffer {
  return Buffer.from(text.replace(/\s+/g, ''), 'hex');
}
