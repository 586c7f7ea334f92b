/** Requests one after another, from several hosts at once. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Lab } from '../../../../src/cli/lab/lab.ts';

export interface Route {
  readonly from: string;
  readonly address: string;
  readonly port: number;
}

export interface TrafficReport {
  readonly requests: number;
  /** Answers that were none, each with what was asked. */
  readonly failures: readonly string[];
}

export interface Traffic {
  /** End it. */
  stop(): Promise<TrafficReport>;
}

/** Milliseconds for one request, and between two of one route: the machine has more to do. */
const TIMEOUT = 15_000;
const PAUSE = 40;

export interface TrafficOptions {
  readonly timeout?: number;
  readonly pause?: number;
}

export function startTraffic(
  lab: Lab,
  routes: readonly Route[],
  { timeout = TIMEOUT, pause: between = PAUSE }: TrafficOptions = {},
): Traffic {
  let isOn = true;
  let requests = 0;
  const failures: string[] = [];
  const follow = async (route: Route) => {
    while (isOn) {
      const { from, address, port } = route;
      const answer = await lab.ask(from, { address, port, timeout });
      requests += 1;
      await pause(between);
      if (answer.outcome !== 'reply') failures.push(`${JSON.stringify(route)}: ${JSON.stringify(answer)}`);
    }
  };
  const all = Promise.all(routes.map(follow));
  return {
    async stop() {
      isOn = false;
      await all;
      return { requests, failures };
    },
  };
}
