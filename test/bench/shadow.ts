/**
 * A shadow beside the real kube-proxy under changes, and the agent in its place: the processor and memory of each, and both latencies.
 *
 *   node test/bench/shadow.ts --kube-proxy PATH [--kube-apiserver PATH --etcd PATH]     writes the end of docs/shadow.md; as root
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../scripts/arguments.ts';
import { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { bytesText, millisecondsText, numberText, percentText } from '../../src/inspect/wire/format.ts';
import { type Shadow, shadowSchema } from '../../src/inspect/wire/shadow.ts';
import { shadowText } from '../../src/inspect/wire/shadow-text.ts';
import { until } from '../helpers/base/until.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { machineText, measuredNow } from '../reliability/machine.ts';
import type { ClusterShape } from './cluster.ts';
import { KubeProxy, kubeProxyVersion } from './kube-proxy.ts';
import { processorTime, residentMemory } from './process-cost.ts';
import { serverVersion, useRealServer } from './server-process.ts';
import { size } from './text.ts';
import { type BenchMode, EXECUTABLE, NEVER, Trial } from './trial.ts';

const FILE = fileURLToPath(new URL('../../docs/shadow.md', import.meta.url));
const BEGIN = '<!-- The rest is written by test/bench/shadow.ts -->';

interface ShadowPlan {
  readonly shape: ClusterShape;
  readonly mode: Exclude<BenchMode, 'ipvs'>;
}

const PLANS: readonly ShadowPlan[] = [
  { shape: { services: 1000, endpoints: 5 }, mode: 'iptables' },
  { shape: { services: 1000, endpoints: 5 }, mode: 'nftables' },
  { shape: { services: 10_000, endpoints: 5 }, mode: 'nftables' },
];

/** Milliseconds. */
const PATIENCE = 300_000;
const SETTLE = 5000;
/** Seconds. */
const REST = 40;
const WARM = 5;
const CHURN = 20;
const PER_SECOND = 100;

interface Cost {
  /** Bytes at rest, and the shares of a core at rest and under changes. */
  readonly memory: number;
  readonly rest: number;
  readonly churn: number;
}

interface Measured extends ShadowPlan {
  readonly shadow: Cost;
  readonly agent: Cost;
  readonly kubeProxy: Cost;
  readonly found: Shadow;
}

function costOf(pid: number): number {
  const { user, system } = processorTime(pid);
  return user + system;
}

async function costsOf(trial: Trial, pids: readonly number[]): Promise<Cost[]> {
  await pause(SETTLE);
  const memory = pids.map((pid) => residentMemory(pid).now);
  const share = async (seconds: number, work: () => Promise<unknown>) => {
    const before = pids.map(costOf);
    await work();
    return pids.map((pid, i) => (costOf(pid) - (before[i] ?? 0)) / (seconds * 1000));
  };
  const rest = await share(REST, () => pause(REST * 1000));
  const churn = async (seconds: number) =>
    await trial.server.churn({ perSecond: PER_SECOND, seconds, turn: trial.turnsOf(PER_SECOND * seconds) });
  await churn(WARM);
  const busy = await share(CHURN, () => churn(CHURN));
  return pids.map((_, i) => ({ memory: memory[i] ?? 0, rest: rest[i] ?? 0, churn: busy[i] ?? 0 }));
}

async function foundBy(trial: Trial): Promise<Shadow | undefined> {
  const { file, args } = trial.lab.inside('node', 'curl', ['-s', 'http://127.0.0.1:10269/status']);
  const { stdout } = await shellCommands.run({ file, args }, NEVER);
  const answer: unknown = stdout === '' ? undefined : JSON.parse(stdout);
  const { success, data } = shadowSchema.safeParse(answer);
  return success ? data : undefined;
}

async function measure(trial: Trial, plan: ShadowPlan, file: string): Promise<Measured> {
  const { lab, server } = trial;
  await trial.empty('node');
  const kubeProxy = await KubeProxy.start(
    { lab, file, kubeconfig: server.kubeconfig, mode: plan.mode },
    { within: PATIENCE },
  );
  trial.stopAtEnd(kubeProxy);
  const own = ['--hostname-override', 'node-0', '--cluster-cidr', '10.128.0.0/9', '--nodeport-addresses', 'primary'];
  const shadow = new AgentProcess(lab, ['shadow', '--kubeconfig', server.kubeconfig, ...own], EXECUTABLE);
  trial.stopAtEnd(shadow);
  if (shadow.pid === undefined) throw new Error('the shadow was not started');
  const isCompared = async () => ((await foundBy(trial))?.compared ?? null) !== null;
  await until('the first comparison', isCompared, PATIENCE);
  const [ofShadow, ofKubeProxy] = await costsOf(trial, [shadow.pid, kubeProxy.pid]);
  let found = await foundBy(trial);
  await until(
    'kube-proxy has written all changes',
    async () => {
      found = await foundBy(trial);
      return found?.waiting.services === 0;
    },
    PATIENCE,
  );
  if (found === undefined) throw new Error(`the shadow does not answer; its log:\n${shadow.text()}`);
  await shadow.stop();
  await kubeProxy.stop();
  await trial.empty('node');
  const { agent, pid } = await trial.start();
  const [ofAgent] = await costsOf(trial, [pid]);
  await agent.stop();
  if (ofShadow === undefined || ofKubeProxy === undefined || ofAgent === undefined) throw new Error('nothing measured');
  return { ...plan, shadow: ofShadow, agent: ofAgent, kubeProxy: ofKubeProxy, found };
}

function rowOf({ shape, mode, shadow, agent, kubeProxy, found }: Measured): string {
  const { theirs, plan } = found.latency;
  const time = (of: typeof theirs) => (of === null ? '–' : `${millisecondsText(of.p50)}, ${millisecondsText(of.p99)}`);
  const three = (of: (cost: Cost) => string) => [shadow, agent, kubeProxy].map(of).join(', ');
  const cells = [
    `${mode}, ${size(shape)}`,
    three(({ memory }) => bytesText(memory)),
    three(({ rest }) => percentText(rest)),
    three(({ churn }) => percentText(churn)),
    time(theirs),
    time(plan),
    found.compared === null
      ? '–'
      : `${numberText(found.compared.connections)} in ${millisecondsText(found.compared.milliseconds)}`,
  ];
  return `| ${cells.join(' | ')} |`;
}

function textOf(
  measured: readonly Measured[],
  about: { readonly kubeProxy: string; readonly server: string; readonly began: ReturnType<typeof measuredNow> },
): string {
  const { commit, ranAt } = about.began;
  const last = measured.at(-1);
  return [
    '## Figures\n',
    `kube-proxy ${about.kubeProxy}, ${about.server}; slicewire ${commit}, ${ranAt.slice(0, 10)}; ${machineText()}.`,
    `${PER_SECOND} changes a second for ${CHURN} s; rest is ${REST} s without a change, between two rounds: these add a hundredth of a processor at most.`,
    'The agent was measured after the shadow, alone, in the place of kube-proxy.\n',
    '| mode, Services × endpoints | memory: shadow, agent, kube-proxy | processor at rest: the same | processor under changes: the same | kube-proxy wrote a change within (half, 99 %) | slicewire made its rules within | a round |',
    '| --- | --- | --- | --- | --- | --- | --- |',
    ...measured.map(rowOf),
    '',
    ...(last === undefined
      ? []
      : [
          `The last row, as the shadow told it:\n`,
          `\`\`\`console\n$ slicewire status --of kube-proxy\n${shadowText({ ...last.found, source: 'the API server' })}\n\`\`\`\n`,
        ]),
  ].join('\n');
}

const { values } = commandLine({
  command: 'node test/bench/shadow.ts',
  about:
    'Measures a shadow beside the real kube-proxy, and writes the end of docs/shadow.md. Needs root, and the executable.',
  options: {
    'kube-proxy': { type: 'string', value: 'PATH', help: 'the real kube-proxy' },
    'kube-apiserver': {
      type: 'string',
      value: 'PATH',
      help: 'the real API server, in the place of the made-up one; with --etcd',
    },
    etcd: { type: 'string', value: 'PATH', help: 'keeps the objects of that API server' },
  },
});
const { 'kube-proxy': kubeProxy = '', 'kube-apiserver': kubeApiserver, etcd } = values;
if (!existsSync(kubeProxy)) throw new Error(`--kube-proxy ${kubeProxy}: there is no such file`);
useRealServer(kubeApiserver === undefined || etcd === undefined ? undefined : { kubeApiserver, etcd });
const began = measuredNow();
const measured: Measured[] = [];
for (const plan of PLANS) {
  process.stdout.write(`${plan.mode} ${size(plan.shape)}\n`);
  await Trial.of({ shape: plan.shape, mode: plan.mode }, async (trial) => {
    measured.push(await measure(trial, plan, kubeProxy));
  });
  process.stdout.write(`${rowOf(measured.at(-1) as Measured)}\n`);
}
const head = existsSync(FILE) ? (readFileSync(FILE, 'utf8').split(BEGIN)[0] ?? '') : '';
const about = { began, kubeProxy: await kubeProxyVersion(kubeProxy), server: await serverVersion() };
writeFileSync(FILE, `${head}${BEGIN}\n\n${textOf(measured, about)}`);
