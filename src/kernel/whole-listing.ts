/** Complete listings of the kernel. */
import { breath } from '../base/clock.ts';

/** Attempts to read a listing that changes during the read. */
const MAX_LISTINGS = 5;

/** The kernel's list changed during every read. */
export class ListingUnsteady extends Error {
  readonly code = 'LISTING_UNSTEADY';
}

/**
 * Reads a listing, yields to the event loop after each part, and reads again when the list changed meanwhile. Rejects with ListingUnsteady
 * when the list changes each time: a part is not the whole (docs/architecture.md, invariant 2).
 */
export async function wholeListing<T>(list: () => Generator<readonly T[], boolean>): Promise<T[]> {
  for (let tries = 1; tries <= MAX_LISTINGS; tries++) {
    const found: T[] = [];
    const parts = list();
    let next = parts.next();
    for (; next.done !== true; next = parts.next()) {
      for (const value of next.value) found.push(value);
      await breath();
    }
    if (!next.value) return found;
  }
  throw new ListingUnsteady(`a listing of the kernel changed during each of ${MAX_LISTINGS} reads`);
}
