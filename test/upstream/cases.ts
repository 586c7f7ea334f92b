/** Cases of Kubernetes' own tests, and what holds them here. Lists are in `unit/` and `e2e/`; `lists.test.ts` keeps them true. */

/** A case of Kubernetes' own tests. It has at least one of `stories`, `tests` and `not`. */
export interface UpstreamCase {
  /** As Kubernetes names it: `TestName`, `TestName/case of its table`, or the words of an e2e test without its tags. */
  readonly title: string;
  /** Titles of stories (test/conformance/stories) that restate it. */
  readonly stories?: readonly string[];
  /** Tests that restate it: their titles by file, from the root of the repository. */
  readonly tests?: Readonly<Record<string, readonly string[]>>;
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
