/** Cases of Kubernetes' own tests, and what holds them here. Lists are in `unit/*-cases.ts` and `e2e/lists.ts`; `lists.test.ts` keeps them true. */

/** A case, or several that are held alike. It has at least one of `by` and `not`. */
export interface UpstreamCase {
  /** As Kubernetes names it: `TestName`, `TestName/case of its table`, or the words of an e2e test without its tags. */
  readonly title: string;
  /** Ids of stories (test/conformance/stories) that restate it, and test files, from the root of the repository. */
  readonly by: readonly string[];
  /** Rows of a test function that one line stands for: all that have no line of their own. */
  readonly rows: number;
  /** Why nothing here holds it, or not all of it. */
  readonly not?: string;
  /** What slicewire does otherwise on purpose. */
  readonly differs?: string;
}

/** The cases of a file of Kubernetes. */
export interface UpstreamFile {
  /** From the root of kubernetes/kubernetes. */
  readonly path: string;
  readonly cases: readonly UpstreamCase[];
}

/** The proof of a case: a story or a test file, several of them, or those with a remark. */
export type Holding =
  | string
  | readonly string[]
  | {
      readonly by?: string | readonly string[];
      readonly rows?: number;
      readonly not?: string;
      readonly differs?: string;
    };

/** By the titles of the cases. */
export type Holdings = Readonly<Record<string, Holding>>;

export function upstreamFile(path: string, holdings: Holdings): UpstreamFile {
  return { path, cases: Object.entries(holdings).map(([title, holding]) => caseOf(title, holding)) };
}

function caseOf(title: string, holding: Holding): UpstreamCase {
  if (!isDetailed(holding)) return { title, by: [holding].flat(), rows: 1 };
  const { by = [], rows = 1, ...rest } = holding;
  return { title, by: [by].flat(), rows, ...rest };
}

/** Apart, because `Array.isArray` does not narrow a list that is read-only. */
function isDetailed(holding: Holding): holding is Exclude<Holding, string | readonly string[]> {
  return typeof holding === 'object' && !Array.isArray(holding);
}

/** Whether a holder is a test file, and not a story. */
export const isFile = (holder: string): boolean => holder.startsWith('test/');

/** Whether a title is the case of another title, or one of its rows. */
export const isWithin = (title: string, whole: string): boolean => title === whole || title.startsWith(`${whole}/`);
