/** The difference of two lists of lines, for people: removed lines as `- …`, then added ones as `+ …`, each in their order. */
export function lineDiff(from: readonly string[], to: readonly string[]): string[] {
  const gone = new Set(from);
  const come = new Set(to);
  const lines: string[] = [];
  for (const line of from) if (!come.has(line)) lines.push(`- ${line}`);
  for (const line of to) if (!gone.has(line)) lines.push(`+ ${line}`);
  return lines.length > 0 || from.length === to.length ? lines : ['~ the same rules in another order'];
}
