/** The manifests cannot be used at all; the agent stops at its start. */
export class ManifestsUnusable extends Error {
  readonly code = 'MANIFESTS_UNUSABLE';
}
