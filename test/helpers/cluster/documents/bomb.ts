/** A text that stands for much more than it is. */

/** 500 bytes that stand for ten to the power of `levels` texts: each list names the one before ten times. `rest`: lines that may name `*a8`. */
export function aliasBomb(rest = '', levels = 8): string {
  const tenOf = (text: string) => Array(10).fill(text).join(',');
  const lines = [`a0: &a0 [${tenOf('x')}]`];
  for (let i = 1; i <= levels; i++) lines.push(`a${i}: &a${i} [${tenOf(`*a${i - 1}`)}]`);
  return `${lines.join('\n')}\n${rest}`;
}
