/** The manifests cannot be used at all: said at the start, where somebody made a mistake. */
export class ManifestsUnusable extends Error {
  readonly code = 'MANIFESTS_UNUSABLE';
}
