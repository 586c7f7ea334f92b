/** Asks the agent for its health again and again, inside the node's namespace, and tells how long it was kept waiting. */
import { Agent, get } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { type HealthAnswer, LEAST_WAIT, type Wait } from './health-watch.ts';
import { obey } from './inside.ts';

const URL = 'http://127.0.0.1:10256/livez';
/** Milliseconds between two questions. */
const BETWEEN = 10;

const agent = new Agent({ keepAlive: true });
const waits: Wait[] = [];
let isOver = false;

function ask(): Promise<boolean> {
  return new Promise((resolve) => {
    get(URL, { agent }, (response) => {
      response.resume();
      response.on('end', () => resolve(true));
    }).on('error', () => resolve(false));
  });
}

async function watch(): Promise<void> {
  while (!isOver) {
    const start = performance.now();
    const isAnswered = await ask();
    const milliseconds = performance.now() - start;
    if (isAnswered && milliseconds > LEAST_WAIT) waits.push({ from: Date.now() - milliseconds, milliseconds });
    await pause(BETWEEN);
  }
}

const watching = watch();
obey<{ kind: 'ready' | 'end' }, HealthAnswer>(async ({ kind }) => {
  isOver = kind === 'end';
  if (isOver) await watching;
  return { waits };
});
