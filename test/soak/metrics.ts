/** The agent's metrics over many of its lives: counters begin at 0 with each, so that what a life counted is added up. */

/** `name{labels}`, as the text has it, and the value. */
export type Samples = ReadonlyMap<string, number>;

/** Reads Prometheus' text form. */
export function samplesOf(text: string): Samples {
  const samples = new Map<string, number>();
  for (const line of text.split('\n')) {
    const space = line.lastIndexOf(' ');
    if (line.startsWith('#') || space < 0) continue;
    samples.set(line.slice(0, space), Number(line.slice(space + 1)));
  }
  return samples;
}

/** The sum of all samples of this name whose labels have each of these texts. */
export function sumOf(samples: Samples, name: string, ...labels: readonly string[]): number {
  let sum = 0;
  for (const [key, value] of samples) if (isOf(key, name) && labels.every((label) => key.includes(label))) sum += value;
  return sum;
}

function isOf(key: string, name: string): boolean {
  return key === name || key.startsWith(`${name}{`);
}

export class Totals {
  readonly #sums = new Map<string, number>();

  /** Add what was counted since `before`. Gauges are added as well, and mean nothing here. */
  add(samples: Samples, before: Samples = new Map()): void {
    for (const [key, value] of samples) {
      this.#sums.set(key, (this.#sums.get(key) ?? 0) + value - (before.get(key) ?? 0));
    }
  }

  count(name: string, ...labels: readonly string[]): number {
    return sumOf(this.#sums, name, ...labels);
  }

  /** The upper bound of the histogram's bucket in which this quantile lies: that or less. NaN where nothing was observed. */
  quantile(name: string, q: number): number {
    const bounds = new Map<number, number>();
    for (const [key, value] of this.#sums) {
      const bound = isOf(key, `${name}_bucket`) ? /le="([^"]+)"/.exec(key)?.[1] : undefined;
      if (bound === undefined) continue;
      const number = bound === '+Inf' ? Number.POSITIVE_INFINITY : Number(bound);
      bounds.set(number, (bounds.get(number) ?? 0) + value);
    }
    const sorted = [...bounds].sort(([a], [b]) => a - b);
    const all = sorted.at(-1)?.[1] ?? 0;
    return all === 0 ? Number.NaN : (sorted.find(([, count]) => count >= q * all)?.[0] ?? Number.NaN);
  }
}
