/** `npm run bench:ipvs`: measures IPVS mode where the kernel has IPVS, here or in the virtual machine, and writes docs/benchmarks-ipvs.md. */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../scripts/arguments.ts';
import { runThere } from '../vm/run-there.ts';
import { ENDPOINTS } from './cluster.ts';
import type { IpvsMeasured } from './ipvs-inside.ts';
import { MARK } from './ipvs-mark.ts';
import { median, quantile, spread, table } from './text.ts';

commandLine({
  command: 'npm run bench:ipvs',
  about:
    'Measures IPVS mode where the kernel has IPVS, here or in the virtual machine, and writes docs/benchmarks-ipvs.md. Needs root.',
});

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

const SIZES = [1000, 5000];

interface Results {
  readonly measured: readonly IpvsMeasured[];
  readonly where: string;
}

/** Throws when it did not measure all sizes. */
async function measureIpvs(sizes: readonly number[]): Promise<Results> {
  const measured: IpvsMeasured[] = [];
  const { said, isMachine } = await runThere<IpvsMeasured>({
    args: [here('./ipvs-inside.ts'), ...sizes.map(String)],
    mark: MARK,
    onResult: (one) => measured.push(one),
  });
  if (measured.length !== sizes.length) throw new Error(said.join('\n'));
  return {
    measured,
    where: isMachine ? 'the virtual machine (test/vm/machine), whose processors are emulated' : 'this kernel',
  };
}

function page({ measured, where }: Results): string {
  const at = (m: IpvsMeasured) => `${m.services}`;
  const ms = (milliseconds: number) => `${milliseconds.toFixed(1)} ms`;
  const times = (a: number, b: number) => `${(a / b).toFixed(1)}`;
  const [small] = measured;
  return `# Benchmarks of IPVS mode

\`npm run bench:ipvs\` writes this page; do not edit it.
Measured in ${where}; every figure has its rival beside it, from the same run: read the ratios.
N Services of ${ENDPOINTS} endpoints each. The first table is about the agent as a process, with an API server in another process.
The other tables are about its parts in one process, from decoded objects on.

## The agent

Cold start: from exec to the end of the first sync, the API server's lists included.
Change: one endpoint, ${small?.agent.change.length ?? 0} times, from the API server's event until the kernel has the destination, read every millisecond beside the agent; minSyncPeriod 0.

${table(
  ['Services', 'cold start', 'change p50', 'p95', `p50 / that at ${small?.services ?? 0}`],
  measured.map((m) => [
    at(m),
    spread([m.agent.cold]),
    ms(median(m.agent.change)),
    ms(quantile(m.agent.change, 0.95)),
    times(median(m.agent.change), median(small?.agent.change ?? [])),
  ]),
)}

Aim: no growth with N.

## Cold sync

All work of the agent, from the objects to the last rule, into an empty kernel; and the part for virtual servers with their destinations.
The rivals are an administrator's tools for the same state: \`ipvsadm --restore\`, \`ip -batch\`, \`ipset restore\`.

${table(
  ['Services', 'servers', 'ipvsadm', 'ipvsadm / servers', 'whole sync', 'the three tools', 'tools / whole sync'],
  measured.map((m) => {
    const tools = m.ipvsadm + m.ip + m.ipset;
    return [
      at(m),
      spread([m.servers]),
      spread([m.ipvsadm]),
      times(m.ipvsadm, m.servers),
      spread([m.cold]),
      spread([tools]),
      times(tools, m.cold),
    ];
  }),
)}

Aim: servers and destinations at least 5 times as fast as \`ipvsadm --restore\`; the whole not slower than the three tools.
The first size includes the time of code that is not compiled yet, which emulated processors make ten times as long.

## One endpoint changed

The time from the object to the end of the sync, ${measured[0]?.change.length ?? 0} changes.
Each replaces one endpoint by another, which is two changes of the kernel.

${table(
  ['Services', 'median', 'p95', `median / that at ${small?.services ?? 0}`, 'messages', 'processes started'],
  measured.map((m) => [
    at(m),
    ms(median(m.change)),
    ms(quantile(m.change, 0.95)),
    times(median(m.change), median(small?.change ?? [])),
    `${m.messages}`,
    `${m.processes}`,
  ]),
)}

Aim: at most 3 messages, no process, no growth with N.

## Restart

A new agent on a kernel that is right: it reads everything, and writes nothing.

${table(
  ['Services', 'restart', 'messages written'],
  measured.map((m) => [at(m), spread([m.restart]), `${m.rewritten}`]),
)}
`;
}

const OUTPUT = here('../../docs/benchmarks-ipvs.md');
writeFileSync(OUTPUT, page(await measureIpvs(SIZES)));
process.stdout.write(`written: ${OUTPUT}\n`);
