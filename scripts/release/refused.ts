/** The release cannot be made of what is here; the message says what to do. */
export class ReleaseRefused extends Error {}
