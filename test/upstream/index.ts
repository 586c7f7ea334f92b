/** Every list of Kubernetes' test cases. */
import { isFile, type UpstreamCase, type UpstreamFile } from './cases.ts';
import { e2eCases } from './e2e/lists.ts';
import { commandCases } from './unit/command-cases.ts';
import { controllerCases } from './unit/controller-cases.ts';
import { proxierCases } from './unit/proxier-cases.ts';
import { proxyCases } from './unit/proxy-cases.ts';

/** All files of Kubernetes that a list here has cases of, in the order of their paths. */
export const UPSTREAM: readonly UpstreamFile[] = [
  ...commandCases,
  ...proxierCases,
  ...proxyCases,
  ...controllerCases,
  ...e2eCases,
].sort((a, b) => (a.path < b.path ? -1 : 1));

/** How a case is held here. `partly`: something holds it, but `not` says what is left. */
export type Held = 'story' | 'test' | 'partly' | 'not';

export function heldBy({ by, not }: UpstreamCase): Held {
  if (by.length === 0) return 'not';
  if (not !== undefined) return 'partly';
  return by.every(isFile) ? 'test' : 'story';
}
