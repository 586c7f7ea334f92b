/** The newest versions that the fleet has seen. Pure. */
import { newer } from '../proxy/model/resource-version.ts';
import type { FleetKind, Versions } from './types.ts';

const NONE: Versions = { services: '', slices: '' };

export class SeenVersions {
  readonly #synced = new Set<FleetKind>();
  #newest = NONE;
  #listed = NONE;

  /** Whether the first lists of both kinds are complete. */
  get isComplete(): boolean {
    return this.#synced.size === 2;
  }

  /** Of changes of objects. Bookmarks and lists have later ones, but other watchers may not be told of these for a long time. */
  get newest(): Versions {
    return this.#newest;
  }

  /** The same, or the versions of the first lists where these are newer: what a list no longer had may have been there just before. */
  get newestWithLists(): Versions {
    return {
      services: newer(this.#newest.services, this.#listed.services),
      slices: newer(this.#newest.slices, this.#listed.slices),
    };
  }

  advance(kind: FleetKind, version: string): void {
    this.#newest = { ...this.#newest, [kind]: newer(this.#newest[kind], version) };
  }

  synced(kind: FleetKind, version: string): void {
    this.#synced.add(kind);
    this.#listed = { ...this.#listed, [kind]: version };
  }

  /** The versions of a kind went back. */
  restored(kind: FleetKind): void {
    this.#synced.delete(kind);
    this.#newest = { ...this.#newest, [kind]: '' };
    this.#listed = { ...this.#listed, [kind]: '' };
  }
}
