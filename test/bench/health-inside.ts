/** Asks the agent for its health again and again, inside the node's namespace, and tells how long it was kept waiting. */
import { Agent, get } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import type { HealthAnswer, Wait } from './health-watch.ts';
import { obey } from './inside.ts';

const URL = 'http://127.0.0.1:10256/livez';
/** Milliseconds between two questions. */
const BETWEEN = 10;
/** Milliseconds: shorter waits are not told one by one. */
const TOLD = 10;

const agent = new Agent({ keepAlive: true });
const waits: Wait[] = [];
const answer = { asked: 0, longest: 0, unanswered: 0, waits };
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
    if (isAnswered) {
      answer.asked += 1;
      const milliseconds = performance.now() - start;
      answer.longest = Math.max(answer.longest, milliseconds);
      if (milliseconds > TOLD) waits.push({ from: Date.now() - milliseconds, milliseconds });
      // Before the first answer the agent is not there yet.
    } else if (answer.asked > 0) answer.unanswered += 1;
    await pause(BETWEEN);
  }
}

const watching = watch();
obey<{ kind: 'ready' | 'end' }, HealthAnswer>(async ({ kind }) => {
  isOver = kind === 'end';
  if (isOver) await watching;
  return answer;
});
