/** Run inside a namespace by cut-cable.test.ts: follows two API servers on its loopback, drops all their packets, and prints when each connection was found dead. */
import { setTimeout as pause } from 'node:timers/promises';
import { realClock } from '../../src/base/clock.ts';
import { apiClient } from '../../src/cluster/api/client.ts';
import { loadCredentials } from '../../src/cluster/api/credentials.ts';
import { Reflector } from '../../src/cluster/api/reflector.ts';
import { until } from '../helpers/base/until.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { service } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const LONGEST = 90_000;

interface Followed {
  readonly server: ApiServer;
  readonly httpVersions: () => readonly string[];
  /** When it failed first, in milliseconds of `performance.now()`. */
  failedAt: number | undefined;
  cause: string;
  readonly seen: string[];
}

async function follow(tls: true | 'http/1.1'): Promise<Followed> {
  const server = await ApiServer.start({ tls });
  const client = apiClient(await loadCredentials({ kubeconfig: await server.kubeconfig(), master: undefined }), {
    userAgent: 'test',
  });
  const httpVersions = () => [...new Set(server.requests().map(({ httpVersion }) => httpVersion))];
  const followed: Followed = { server, httpVersions, failedAt: undefined, cause: '', seen: [] };
  const sink = {
    set: (key: string) => followed.seen.push(key),
    gone: () => undefined,
    synced: () => undefined,
    heard: () => undefined,
    opened: () => undefined,
    recovered: () => undefined,
    restored: () => undefined,
    failed: (error: Error) => {
      followed.failedAt ??= performance.now();
      followed.cause ||= error.message;
    },
  };
  const resource = { path: '/api/v1/services' };
  const options = { resource, client, clock: realClock, sink, random: () => 0, pageSize: 100 };
  void new Reflector(options).run(NEVER);
  await until('the watch', () => server.watches === 1, LONGEST);
  return followed;
}

async function iptables(...args: readonly string[]): Promise<void> {
  const { exitCode, stderr } = await shellCommands.run({ file: 'iptables', args }, NEVER);
  if (exitCode !== 0) throw new Error(stderr);
}

const all = [await follow(true), await follow('http/1.1')];
await pause(2000);
const cutAt = performance.now();
// Dropped, not refused: nobody sends an RST.
await iptables('-t', 'raw', '-A', 'PREROUTING', '-p', 'tcp', '-j', 'DROP');
await until('both are found dead', () => all.every(({ failedAt }) => failedAt !== undefined), LONGEST);
await iptables('-t', 'raw', '-F');
for (const { server } of all)
  server.put(service({ name: 'web', spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }] } }));
await until('both are followed again', () => all.every(({ seen }) => seen.length > 0), LONGEST);
const report = all.map(({ httpVersions, failedAt = 0, cause }) => ({
  httpVersions: httpVersions(),
  seconds: (failedAt - cutAt) / 1000,
  cause,
}));
process.stdout.write(`${JSON.stringify(report)}\n`);
process.exit(0);
