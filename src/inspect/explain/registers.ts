/** Registers of nftables: words of 4 bytes, one character each. Pure. */

/** Bytes into words, from one on. */
export function put(words: string[], at: number, bytes: string): void {
  for (let i = 0; i * 4 < bytes.length; i++) words[at + i] = bytes.slice(i * 4, i * 4 + 4).padEnd(4, '\0');
}

/** The kernel refuses rules that read a word that nothing was written to (nft_parse_register_load, nf_tables_api.c); here it is 0. */
export function take(words: readonly string[], at: number, length: number): string {
  let bytes = '';
  for (let i = at; bytes.length < length; i++) bytes += words[i] ?? '\0\0\0\0';
  return bytes.slice(0, length);
}

/** `(bytes & mask) ^ flip` */
export function masked(bytes: string, mask: string, flip: string): string {
  const byte = (text: string, i: number) => text.charCodeAt(i);
  let result = '';
  for (let i = 0; i < bytes.length; i++) {
    result += String.fromCharCode((byte(bytes, i) & byte(mask, i)) ^ byte(flip, i));
  }
  return result;
}

/** The number of a word in the machine's byte order. */
export function numberOf(word: string): number {
  return [0, 1, 2, 3].reduce((sum, i) => sum + word.charCodeAt(i) * 256 ** i, 0);
}
