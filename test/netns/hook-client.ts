/**
 * A program with valid tokens, such as a hook, for floods.test.ts: `node hook-client.ts ADDRESS PORT PATH AUDIENCE COUNT` asks once with each of
 * the tokens `validToken(1)` to `validToken(COUNT)`, and prints the statuses of the answers.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { validToken } from './floods.ts';

const [address = '', port = '', path = '', audience = '', count = ''] = process.argv.slice(2);
/** Milliseconds until the flood is there. */
const LATER = 300;

await pause(LATER);
const statuses: number[] = [];
for (let n = 1; n <= Number(count); n += 1) {
  const headers = { authorization: `Bearer ${validToken(n, audience)}`, connection: 'close' };
  const answer = await fetch(`http://${address}:${port}${path}`, { headers });
  await answer.arrayBuffer();
  statuses.push(answer.status);
}
process.stdout.write(`${JSON.stringify(statuses)}\n`);
process.exit();
