/** What every answer begins with. Without schemas: an agent that nobody asks loads none of them. */

export const API_VERSION = 'slicewire/v1';

/** A moment of an answer, from milliseconds since 1970. */
export function momentOf(wall: number): string {
  return new Date(wall).toISOString();
}
