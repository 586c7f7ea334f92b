/** Takes the messages of the fleet's `/live` in (inspect/wire/fleet.ts): the first is whole, each later one has what changed. Pure. */
import type { FleetLive } from '../../inspect/wire/fleet.ts';
import { type FleetLiveDelta, withFleetDelta } from '../../inspect/wire/fleet-delta.ts';

/** `before` undefined: `message` is the first. Throws when that is not whole. */
export function mergedFleet(before: FleetLive | undefined, message: FleetLiveDelta): FleetLive {
  if (before !== undefined) return withFleetDelta(before, message);
  if (!isWhole(message)) throw new Error('the first message of /live is not whole');
  return message;
}

const WHOLE = ['version', 'at', 'sentence', 'nodes', 'latency', 'minutes', 'slowest', 'waiting', 'drained'] as const;

function isWhole(message: FleetLiveDelta): message is FleetLive {
  return WHOLE.every((field) => message[field] !== undefined);
}
