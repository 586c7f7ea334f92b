/** The objects that a reflector has passed on, by key, with the resourceVersion of each: a list passes on only what differs. */

/** A resourceVersion; as a number where it is one, which takes less memory than a text. "" when it is not trusted. */
type Version = number | string;

export class KnownObjects {
  readonly #versions = new Map<string, Version>();
  /** Keys that the present list has not had yet. */
  #left = new Set<string>();

  /** A list begins. */
  listBegins(): void {
    this.#left = new Set(this.#versions.keys());
  }

  /** The list has this object. Returns whether it differs from the one that was passed on, or may differ. */
  isNews(key: string, version: string): boolean {
    if (this.#left.size > 0) this.#left.delete(key);
    return version === '' || this.#versions.get(key) !== versionOf(version);
  }

  set(key: string, version: string): void {
    this.#versions.set(key, versionOf(version));
  }

  delete(key: string): void {
    this.#versions.delete(key);
    this.#left.delete(key);
  }

  /** The list is complete: the keys that it did not have, which are forgotten. */
  listEnds(): Iterable<string> {
    const gone = this.#left;
    this.#left = new Set();
    for (const key of gone) this.#versions.delete(key);
    return gone;
  }

  /** An object with the same version may be another one. */
  distrust(): void {
    for (const key of this.#versions.keys()) this.#versions.set(key, '');
  }
}

/** Numbers with more digits are not exact. */
function versionOf(text: string): Version {
  return /^[1-9]\d{0,14}$/.test(text) ? Number(text) : text;
}
