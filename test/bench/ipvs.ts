/** `npm run bench:ipvs`: measures IPVS mode where the kernel has IPVS, here or in the virtual machine, and writes docs/benchmarks-ipvs.md. */
import { existsSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../scripts/arguments.ts';
import { type Measured, measuredNow } from '../reliability/machine.ts';
import { runThere } from '../vm/run-there.ts';
import { ENDPOINTS } from './cluster.ts';
import type { IpvsLine, IpvsMeasured } from './ipvs-inside.ts';
import { MARK } from './ipvs-mark.ts';
import type { ProxiesResult, ProxyMeasured } from './proxies.ts';
import { rivalName } from './proxies-page.ts';
import { median, most, ms, NOT_RUN, percent, size, spread, spreadOf, table } from './text.ts';

const { values } = commandLine({
  command: 'npm run bench:ipvs',
  about:
    'Measures IPVS mode where the kernel has IPVS, here or in the virtual machine, and writes docs/benchmarks-ipvs.md. Needs root.',
  options: {
    'kube-proxy': { type: 'string', value: 'PATH', help: 'the real kube-proxy, to be measured beside slicewire' },
  },
});
const { 'kube-proxy': kubeProxy } = values;
if (kubeProxy !== undefined) {
  if (!existsSync(kubeProxy)) throw new Error(`--kube-proxy ${kubeProxy}: there is no such file`);
  // It goes along into the machine.
  process.env.KUBE_PROXY = kubeProxy;
}

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

const SIZES = [1000, 5000];

interface Results {
  readonly measured: readonly IpvsMeasured[];
  readonly proxies: ProxiesResult;
  readonly where: string;
  /** When it ran, and of what. */
  readonly of: Measured;
}

/** Throws when it did not measure all sizes. */
async function measureIpvs(sizes: readonly number[]): Promise<Results> {
  const of = measuredNow();
  const measured: IpvsMeasured[] = [];
  let proxies: ProxiesResult | undefined;
  const { said, isMachine } = await runThere<IpvsLine>({
    args: [here('./ipvs-inside.ts'), ...sizes.map(String)],
    mark: MARK,
    onResult: (line) => {
      if ('parts' in line) measured.push(line.parts);
      else proxies = line.proxies;
    },
  });
  if (measured.length !== sizes.length || proxies === undefined) throw new Error(said.join('\n'));
  return {
    ...{ measured, proxies, of },
    where: isMachine ? 'the virtual machine (test/vm/machine), whose processors are emulated' : 'this kernel',
  };
}

function page({ measured, proxies, where, of: { commit, ranAt } }: Results): string {
  const at = (m: IpvsMeasured) => `${m.services}`;
  const tenths = (milliseconds: number) => ms(milliseconds, 1);
  const times = (a: number, b: number) => `${(a / b).toFixed(1)}`;
  const [small] = measured;
  return `# Benchmarks of IPVS mode

\`npm run bench:ipvs\` writes this page; do not edit it.
The source of commit ${commit}, measured in ${where}, on ${ranAt.slice(0, 10)}.
Rivals are measured in the same run: read the ratios.
N Services of ${ENDPOINTS} endpoints each. The first table is about the agent as a process, with an API server in another process.
The other tables are about its parts in one process, from decoded objects on.

## The agent

Cold start: from exec to the end of the first sync, the API server's lists included.
Change: one endpoint, ${small?.agent.change.length ?? 0} times, from the API server's event until the kernel has the destination, read every millisecond beside the agent; minSyncPeriod 0.

${table(
  ['Services', 'cold start', 'change, median', 'longest', `median / that at ${small?.services ?? 0}`],
  measured.map((m) => [
    at(m),
    spread([m.agent.cold]),
    tenths(median(m.agent.change)),
    tenths(most(m.agent.change)),
    times(median(m.agent.change), median(small?.agent.change ?? [])),
  ]),
)}

Aim: no growth with N.

${besideKubeProxy(proxies)}

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
  ['Services', 'median', 'longest', `median / that at ${small?.services ?? 0}`, 'messages', 'processes started'],
  measured.map((m) => [
    at(m),
    tenths(median(m.change)),
    tenths(most(m.change)),
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

function besideKubeProxy(result: ProxiesResult): string {
  const rival = rivalName(result);
  const { measured, missing } = result;
  return `## Beside kube-proxy

Both as processes, one after the other in the same namespace, with minSyncPeriod 1 s.
kube-proxy starts a process of \`ipset\` for each entry of a set and for each look at one, which takes about a second on these processors.
Memory is in megabytes, with children at the peak.

${table(
  [
    ...[
      'cluster',
      'proxy',
      'cold start',
      'processor',
      'one change, p50',
      '100 changes a second: processor',
      'delay p99',
    ],
    ...['peak', 'at rest', 'anonymous', 'restart'],
  ],
  measured.map((one) => [
    ...[size(one.shape), one.proxy === 'kube-proxy' ? rival : one.proxy, spread(one.cold), spread(one.processor)],
    one.change === undefined ? NOT_RUN : ms(median(one.change), 1),
    ...churnCells(one),
    ...[spreadOf(one.peak), one.resident.toFixed(0), one.anonymous.toFixed(0)],
    one.restart === undefined ? NOT_RUN : spread(one.restart),
  ]),
)}${missing.length === 0 ? '' : `\n\nNot measured:\n\n${missing.map((one) => `- ${one}`).join('\n')}`}`;
}

function churnCells({ churn: [flow] = [] }: ProxyMeasured): string[] {
  return flow === undefined ? [NOT_RUN, NOT_RUN] : [percent(flow.processor), ms(flow.delays.p99, 1)];
}

const OUTPUT = here('../../docs/benchmarks-ipvs.md');
writeFileSync(OUTPUT, page(await measureIpvs(SIZES)));
process.stdout.write(`written: ${OUTPUT}\n`);
