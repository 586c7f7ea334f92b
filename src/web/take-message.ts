/** Takes the messages of `/live` in (inspect/wire/live.ts): the first is whole, each later one has what changed. Pure. */
import type { Live, LiveDelta } from '../inspect/wire/live.ts';
import { withDelta } from '../inspect/wire/live-delta.ts';

/** Milliseconds that the page looks back. */
export const LOOK_BACK = 15 * 60_000;

/** `before` undefined: `message` is the first. Throws when that is not whole. */
export function merged(before: Live | undefined, message: LiveDelta): Live {
  if (before !== undefined) return withDelta(before, message);
  if (!isWhole(message)) throw new Error('the first message of /live is not whole');
  return message;
}

const WHOLE = [
  ...(['by', 'sentence', 'health', 'objects', 'latency', 'syncs', 'heard', 'faults', 'refused', 'drift'] as const),
];

function isWhole(message: LiveDelta): message is Live {
  return WHOLE.every((field) => message[field] !== undefined);
}
