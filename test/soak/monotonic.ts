import { nanoseconds } from '../bench/monotonic.ts';

/** Milliseconds of the monotonic clock, which all processes of the machine share. */
export function milliseconds(): number {
  return nanoseconds() / 1e6;
}
