/**
 * Nanoseconds of the monotonic clock, which all processes of the machine share. A number holds them exactly for the first
 * 104 days after the machine started, and to 2 ns for as long again.
 */
export function nanoseconds(): number {
  return Number(process.hrtime.bigint());
}
