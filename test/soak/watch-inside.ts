/** Asks the agent for its health all the time, and for its metrics on command, inside the node's namespace. */
import './interrupts.ts';
import { readFileSync } from 'node:fs';
import { get } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { obey } from '../bench/inside.ts';
import type { WatchAnswer, WatchCommand } from './watch-protocol.ts';

const HEALTH = 'http://127.0.0.1:10256/healthz';
const METRICS = 'http://127.0.0.1:10249/metrics';
const MODE = 'http://127.0.0.1:10249/proxyMode';
/** Milliseconds. */
const BETWEEN = 250;
const TIMEOUT = 5000;
const SCRAPE_TIMEOUT = 30_000;

const counts = { longestUnhealthy: 0, unhealthy: 0 };
let lastHealthy: number | undefined;

/** The text of a 200, or undefined. */
function ask(url: string, timeout = TIMEOUT): Promise<string | undefined> {
  return new Promise((resolve) => {
    const request = get(url, { agent: false, timeout }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece) => {
        text += piece;
      });
      response.on('end', () => resolve(response.statusCode === 200 ? text : undefined));
      response.on('error', () => resolve(undefined));
    });
    request.on('timeout', () => request.destroy());
    request.on('error', () => resolve(undefined));
  });
}

async function watch(): Promise<never> {
  let wasHealthy = true;
  for (;;) {
    const isHealthy = (await ask(HEALTH)) !== undefined;
    const now = performance.now();
    if (isHealthy) {
      if (!wasHealthy) note(now);
      lastHealthy = now;
    }
    wasHealthy = isHealthy;
    await pause(BETWEEN);
  }
}

/** A time without health ends. */
function note(now: number): void {
  if (lastHealthy === undefined) return;
  counts.longestUnhealthy = Math.max(counts.longestUnhealthy, now - lastHealthy);
  counts.unhealthy += now - lastHealthy;
}

void watch();
obey<WatchCommand, WatchAnswer>(async ({ kind }) => ({
  metrics: kind === 'scrape' ? await ask(METRICS, SCRAPE_TIMEOUT) : undefined,
  mode: kind === 'mode' ? await ask(MODE) : undefined,
  connections: Number(readFileSync('/proc/sys/net/netfilter/nf_conntrack_count', 'utf8')),
  ...counts,
}));
