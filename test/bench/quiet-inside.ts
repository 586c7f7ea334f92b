/** Run inside a namespace by quiet.ts: an agent beside an API server in whose cluster nothing happens; prints each second's answers as one summary. */
import { setTimeout as pause } from 'node:timers/promises';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { log, startAgent, web, webSlice } from '../netns/inside.ts';

const PATHS = ['/livez', '/healthz'] as const;
const minutes = Number(process.argv[2] ?? 20);
const tls = process.argv[3] === 'http/1.1' ? 'http/1.1' : true;

const server = await ApiServer.start({ tls });
server.put({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'node' }, spec: {}, status: { addresses: [] } });
server.put(web(1));
server.put(webSlice(1, '10.244.0.1'));
// As a real server: once a minute, and only to watches of a kind that changed.
const bookmarks = setInterval(() => server.bookmark(), 60_000);
const agent = startAgent('--kubeconfig', await server.kubeconfig(), '--conntrack-max-per-core', '0');

const counts: Record<string, number> = {};
const begun = performance.now();
let isUp = false;
let firstBad: string | undefined;
while (performance.now() - begun < minutes * 60_000) {
  for (const path of PATHS) {
    const answer = await fetch(`http://127.0.0.1:10256${path}`).then(
      async (got) => ({ status: got.status, body: await got.text() }),
      (error: Error) => ({ status: 0, body: error.message }),
    );
    isUp ||= answer.status === 200;
    if (!isUp) continue;
    const key = `${path} ${answer.status}`;
    counts[key] = (counts[key] ?? 0) + 1;
    if (answer.status !== 200) firstBad ??= `after ${Math.round((performance.now() - begun) / 1000)} s: ${answer.body}`;
  }
  await pause(1000);
}
clearInterval(bookmarks);
const warnings = log.filter(({ level }) => !['info', 'debug'].includes(String(level))).map(({ msg }) => msg);
const watches = server.requests({ kind: 'watch' }).length;
const connections = await server.connections();
process.stdout.write(
  `${JSON.stringify({ minutes, tls, counts, firstBad, watches, connections, warnings }, undefined, 2)}\n`,
);
await agent.stop();
await server.stop();
process.exit(0);
