/** `npm run bench`: measures, and writes docs/benchmarks.md. */
import { writeFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { realCommands } from '../../src/host/commands.ts';
import { ENDPOINTS } from './cluster.ts';
import { measureFlows } from './flows.ts';
import type { FlowsMeasured } from './flows-inside.ts';
import { type Measured, measure } from './measure.ts';
import { median, quantile, spread, table } from './text.ts';

const OUTPUT = fileURLToPath(new URL('../../docs/benchmarks.md', import.meta.url));
const SIZES = [1000, 10_000];
const SHAPE = { runs: 3, changes: 40, rivalUpTo: 1000 };

const results: Measured[] = [];
for (const backend of ['nft', 'legacy'] as const) {
  for (const services of SIZES) {
    process.stdout.write(`${services} Services, iptables-${backend}\n`);
    results.push(await measure({ services, backend, ...SHAPE }));
  }
}
const FLOWS = [
  { flows: 1000, others: 0, stale: 100 },
  { flows: 50_000, others: 0, stale: 1000 },
  { flows: 1000, others: 100_000, stale: 100 },
];
const sweeps: FlowsMeasured[] = [];
for (const options of FLOWS) {
  process.stdout.write(`${options.flows} UDP flows, ${options.others} others\n`);
  sweeps.push(await measureFlows(options));
}
const version = await realCommands.run({ file: 'iptables', args: ['--version'] }, new AbortController().signal);
writeFileSync(OUTPUT, page({ measured: results, sweeps, iptables: version.stdout.trim() }));
process.stdout.write(`written: ${OUTPUT}\n`);

interface Results {
  readonly measured: readonly Measured[];
  readonly sweeps: readonly FlowsMeasured[];
  readonly iptables: string;
}

function page({ measured, sweeps, iptables }: Results): string {
  const machine = `${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB, Linux ${release()}, ${iptables}, Node.js ${process.versions.node}`;
  return `# Benchmarks

Written by \`npm run bench\`; not edited by hand. Machine: ${machine}.
Machines are noisy: read the ratios. Every figure stands beside its floor, measured in the same run.
N Services of ${ENDPOINTS} endpoints each from a folder of manifests (one JSON file a Service), pods on 100 nodes, one of them this one.
IPVS mode has a page of its own: [benchmarks-ipvs.md](benchmarks-ipvs.md).

## Cold start

From exec to the end of the first sync, into empty tables. Floor: \`iptables-restore\` of the same rules into the empty tables of another namespace.
kube-proxy's layout: \`iptables-restore\` of the same Services with a chain an endpoint and one long KUBE-SERVICES (it takes minutes at 10,000 with nft). Medians of ${SHAPE.runs} runs, with the least and the most.

${table(
  ['Services', 'backend', 'chains', 'rules', 'cold start', 'floor', '(cold − 1 s) / floor', "kube-proxy's layout"],
  measured.map((m) => [
    `${m.services}`,
    m.backend,
    `${m.chains}`,
    `${m.rules}`,
    spread(m.cold),
    spread(m.floor),
    ((median(m.cold) - 1000) / median(m.floor)).toFixed(2),
    m.rival.length > 0 ? spread(m.rival) : 'not run',
  ]),
)}

Aim: at most 1.5 times the floor plus one second for reading: the column is then at most 1.5. With the legacy tool at 10,000 the floor is less than the
agent's own work of about two seconds: starting Node.js, reading 10,000 files, decoding, rendering.

## One endpoint changed

From before the file is written to the end of the sync, minSyncPeriod 0, ${SHAPE.changes} changes. Of this, 5 ms are the agent's wait for the rest of a change to a file.
Floor: \`iptables-restore\` of one chain of ${ENDPOINTS} rules, in the same namespace.

${table(
  ['Services', 'backend', 'median', '99th of 100', 'floor, median', 'median / that at 1000'],
  measured.map((m) => {
    const small = measured.find((other) => other.backend === m.backend && other.services === SIZES[0]) ?? m;
    return [
      `${m.services}`,
      m.backend,
      `${median(m.change).toFixed(1)} ms`,
      `${quantile(m.change, 0.99).toFixed(1)} ms`,
      `${median(m.changeFloor).toFixed(1)} ms`,
      (median(m.change) / median(small.change)).toFixed(2),
    ];
  }),
)}

Aim: under 40 ms at 10,000, and no more than 1.5 times that at 1,000. The agent's own part is the difference to the floor. The floor itself grows:
with nft the kernel checks every rule that can be reached from a built-in chain whenever a rule with a match or target of xtables is written
(nft_table_validate: 80 to 90 ms of one sendmsg at 71,000 rules; without the jumps from the built-in chains the same write takes 4 to 25 ms); the legacy
tool reads and replaces the whole table. Tried with nft, time of one chain's restore at 10,000 Services: as it was 92 ms; no comments on endpoint
rules 77 ms (kept); no comments at all 72 ms; no masquerade rules 90 ms; neither 67 ms.

## Memory and restart

Resident two seconds after the last change, and the most it ever was. Restart: from exec to the end of the first sync when the kernel is already right; nothing is written.

${table(
  ['Services', 'backend', 'resident', 'peak', 'restart'],
  measured.map((m) => [
    `${m.services}`,
    m.backend,
    `${m.resident.toFixed(0)} MB`,
    `${m.peak.toFixed(0)} MB`,
    spread(m.restart),
  ]),
)}

Aim: under 200 MB at 10,000.

## Stale UDP flows

A sweep of the kernel's table of connections: list the UDP flows, judge each, delete the stale ones; beside syncs, never in their way. Floor:
\`conntrack -L -p udp\` (lists, deletes nothing) and \`conntrack -D\` of the stale ones by their common destination (one command for what are as many Services).
Longest: the most that one step of the sweep held the event loop. After a sweep the agent rests nine times as long as it took.

${table(
  ['UDP flows', 'other flows', 'stale', 'sweep', 'sweep with nothing stale', 'longest', 'conntrack -L', 'conntrack -D'],
  sweeps.map((m) => [
    `${m.flows}`,
    `${m.others}`,
    `${m.stale}`,
    ...[m.sweep, m.sweepOfNone, m.longest, m.list, m.remove].map((milliseconds) => `${milliseconds.toFixed(0)} ms`),
  ]),
)}
`;
}
