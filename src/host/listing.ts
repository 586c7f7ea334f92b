/** Whole listings of the kernel. */
import { breath } from './clock.ts';

/** How often a listing that changes while it is made is made again. */
const MOST_LISTINGS = 5;

/** The kernel's list changed every time that it was read. */
export class ListingUnsteady extends Error {
  readonly code = 'LISTING_UNSTEADY';
}

/** All of a listing, with a breath after each part; again when it changed meanwhile. Throws when it does so every time: a part is not the whole (invariant 2). */
export async function wholeListing<T>(list: () => Generator<readonly T[], boolean>): Promise<T[]> {
  for (let tries = 1; tries <= MOST_LISTINGS; tries++) {
    const found: T[] = [];
    const parts = list();
    let next = parts.next();
    for (; next.done !== true; next = parts.next()) {
      for (const value of next.value) found.push(value);
      await breath();
    }
    if (!next.value) return found;
  }
  throw new ListingUnsteady(`a listing of the kernel changed during each of ${MOST_LISTINGS} reads`);
}
