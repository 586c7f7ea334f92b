/**
 * Lists in pages beside streaming lists (KEP-3157), from a kube-apiserver that runs: an agent's first lists, by turns, each in a
 * process of its own. Prints one line for each run: of the client time, processor, peak of memory and the longest hold of its event
 * loop; of the server processor, what it allocated, and the peak of its memory meanwhile.
 *
 *   node test/bench/lists.ts --kubeconfig FILE --server PID [--runs 5]
 *
 * The kubeconfig is of JSON with a token, as `real-server.ts` writes it.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { realCommands } from '../../src/kernel/commands.ts';
import { processorTime, residentMemory } from './process-cost.ts';

const CLIENT = fileURLToPath(new URL('./lists-client.ts', import.meta.url));
const NEVER = new AbortController().signal;

const { values } = parseArgs({
  options: { kubeconfig: { type: 'string' }, server: { type: 'string' }, runs: { type: 'string', default: '5' } },
});
const { kubeconfig, server, runs } = values;
if (kubeconfig === undefined || server === undefined) throw new Error('--kubeconfig and --server are needed');
const pid = Number(server);

/** Bytes that the server has allocated since it started (Go's runtime/metrics). */
async function allocated(): Promise<number> {
  const { clusters, users } = JSON.parse(readFileSync(kubeconfig ?? '', 'utf8'));
  const { server: url, 'certificate-authority-data': authority } = clusters[0].cluster;
  const headers = { authorization: `Bearer ${users[0].user.token}` };
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  request(`${url}/metrics`, { ca: Buffer.from(authority, 'base64'), headers }, (answer) => text(answer).then(resolve))
    .on('error', reject)
    .end();
  return Number(/^go_memstats_alloc_bytes_total (\S+)$/m.exec(await promise)?.[1]);
}

const spent = () => {
  const { user, system } = processorTime(pid);
  return user + system;
};
const megabytes = (bytes: number) => Math.round(bytes / 1e6);

async function measure(how: 'pages' | 'stream'): Promise<void> {
  // The peak begins anew (proc(5)).
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
  const [before, bytes] = [spent(), await allocated()];
  const resident = residentMemory(pid).now;
  const args = ['--semi-space-growth-factor=1', CLIENT, kubeconfig ?? '', how];
  const { stdout, stderr } = await realCommands.run({ file: process.execPath, args }, NEVER);
  const client = JSON.parse(stdout || stderr);
  const after = await allocated();
  process.stdout.write(
    `${JSON.stringify({
      how,
      services: client.services,
      client: {
        seconds: Math.round(client.milliseconds) / 1000,
        processor: Math.round(client.processor) / 1000,
        peak: megabytes(client.peak),
        hold: Math.round(client.hold),
      },
      server: {
        processor: (spent() - before) / 1000,
        allocated: megabytes(after - bytes),
        before: megabytes(resident),
        peak: megabytes(residentMemory(pid).peak),
      },
      ...(client.warnings.length > 0 ? { warnings: client.warnings } : {}),
    })}\n`,
  );
}

for (let run = 0; run < Number(runs); run++) for (const how of ['pages', 'stream'] as const) await measure(how);
