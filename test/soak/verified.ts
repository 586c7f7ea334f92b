/** What `slicewire verify -o json` said. */
import { verificationSchema } from '../../src/inspect/wire/verification.ts';

export interface Verified {
  /** Kernel objects. */
  readonly compared: number;
  /** Those that differ without a reason: a change that is not written yet is one. */
  readonly differences: readonly string[];
}

/** Undefined: it is no such answer. */
export function verifiedOf(stdout: string): Verified | undefined {
  let parsed: ReturnType<typeof verificationSchema.safeParse>;
  try {
    parsed = verificationSchema.safeParse(JSON.parse(stdout));
  } catch {
    return undefined;
  }
  if (!parsed.success) return undefined;
  const { compared, differences } = parsed.data;
  const unexplained = differences.filter(({ because }) => because === '');
  return { compared, differences: unexplained.map(({ family, object, kind }) => `${family} ${object}: ${kind}`) };
}
