/** Stories of test/netns/programmed.test.ts, each run inside the namespace of a node: an API server on its loopback, the agent beside it. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type Programmed,
  type ProgrammedEvent,
  programmedEventSchema,
  programmedSchema,
} from '../../src/answers/programmed.ts';
import type { Child } from '../../src/host/child.ts';
import { hasReached } from '../../src/model/resource-version.ts';
import type { ApiServer } from '../helpers/api-server.ts';
import { LONGEST, log, runStory, startAgent, web, webSlice } from './inside.ts';

const AT = 'http://127.0.0.1:10256';

function start(kubeconfig: string, ...more: readonly string[]): Child {
  const periods = ['--nftables-min-sync-period', '0s'];
  return startAgent(
    ...more,
    '--mode=nftables',
    '--kubeconfig',
    kubeconfig,
    ...periods,
    '--conntrack-max-per-core',
    '0',
  );
}

async function asked(query = ''): Promise<Programmed> {
  const answer = await fetch(`${AT}/programmed${query}`, { headers: { connection: 'close' } });
  assert.equal(answer.status, 200, await answer.clone().text());
  return programmedSchema.parse(await answer.json());
}

async function eventually(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  const end = performance.now() + LONGEST;
  while (!(await Promise.resolve(holds()).catch(() => false))) {
    if (performance.now() > end) throw new Error(`${what}\n${log.map((line) => line.msg).join('\n')}`);
    await pause(20);
  }
}

/** A stream, and its events so far. */
function stream(pace: number) {
  const events: ProgrammedEvent[] = [];
  const end = new AbortController();
  const reading = (async () => {
    const { body, status } = await fetch(`${AT}/programmed/live?pace=${pace}`, { signal: end.signal });
    assert.equal(status, 200);
    let text = '';
    for await (const piece of body ?? []) {
      text += Buffer.from(piece).toString();
      const all = text.split('\n\n');
      text = all.pop() ?? '';
      for (const one of all)
        if (one.startsWith('data: ')) events.push(programmedEventSchema.parse(JSON.parse(one.slice(6))));
    }
  })().catch(() => undefined);
  return {
    events,
    async end() {
      end.abort();
      await reading;
    },
  };
}

async function says(server: ApiServer, kubeconfig: string): Promise<Child> {
  server.put(web(1));
  server.put(webSlice(1, '10.244.1.1'));
  const agent = start(kubeconfig);
  await eventually('the first marks', async () => (await asked()).marks.slices !== '');
  const live = stream(50);
  await eventually('the first event', () => live.events.length > 0);
  const version = server.put(webSlice(1, '10.244.1.2'));
  const answer = await asked(`?slice=default/web-1-a&version=${version}&wait=30s`);
  assert.equal(answer.reached, true, JSON.stringify(answer));
  await eventually('the event', () =>
    live.events.some(({ marks }) => marks?.some(([, slices]) => hasReached(slices, version))),
  );
  process.stdout.write(`${JSON.stringify(live.events, undefined, 1)}\n${JSON.stringify(answer, undefined, 1)}\n`);
  await live.end();
  return agent;
}

await runStory({ says });
