/** The steps of the demo: each sends real traffic and checks the answers. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ModeName } from '../../proxy/model/modes.ts';
import type { AgentProcess } from '../lab/agent-process.ts';
import type { HostAnswer } from '../lab/host-process.ts';
import { LAB, type Lab, podAddress } from '../lab/lab.ts';
import {
  CANARY,
  canaryYaml,
  EMPTY,
  OUTSIDE,
  outsideYaml,
  podsYaml,
  SELECTING,
  selectingYaml,
  sliceYaml,
  VANISHING,
  vanishingYaml,
  WEB,
} from './manifests.ts';

/** The machine may be emulated. */
export const SYNC_TIMEOUT_MS = 60_000;

/** The state that the steps share. */
export interface Scene {
  readonly lab: Lab;
  readonly folder: string;
  readonly mode: ModeName;
  /** Starts an agent in a mode. The previous one must have stopped. */
  readonly start: (mode: ModeName) => AgentProcess;
  /** The agent that runs now. */
  agent: AgentProcess;
}

interface StepResult {
  readonly succeeded: boolean;
  readonly seen: string;
}

export interface DemoStep {
  readonly title: string;
  readonly run: (scene: Scene) => Promise<StepResult>;
}

/** Text, indented below its heading. */
export function indent(text: string): string {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => `    ${line}`)
    .join('\n');
}

/** The texts for a mode, and the state of its kernel objects in the form that administrators see. */
interface DemoTexts {
  /** The kernel objects that the mode writes. */
  readonly written: string;
  readonly one: string;
  readonly many: string;
  readonly where: string;
  readonly state: (lab: Lab) => Promise<string>;
}

export const SHOWN: Readonly<Record<ModeName, DemoTexts>> = {
  iptables: {
    written: 'chains, jumps and settings',
    one: 'chain',
    many: 'chains',
    where: 'The rules of the Service web:',
    state: rulesOfWeb,
  },
  ipvs: {
    written: 'servers, sets, chains, jumps and settings',
    one: 'server or set',
    many: 'servers and sets',
    where: 'In the kernel:',
    state: ipvsState,
  },
  nftables: {
    written: 'sets, chains and Services',
    one: 'Service',
    many: 'Services and chains',
    where: 'The Services in the table (nft list table ip slicewire shows all of it):',
    state: mapsOfServices,
  },
};

async function ipvsState(lab: Lab): Promise<string> {
  const servers = await lab.exec('node', 'ipvsadm', '-Ln');
  const device = await lab.exec('node', 'ip', 'addr', 'show', 'kube-ipvs0');
  return `# ipvsadm -Ln\n${servers}\n# ip addr show kube-ipvs0\n${device}`;
}

async function rulesOfWeb(lab: Lab): Promise<string> {
  const rules = (await lab.exec('node', 'iptables-save', '-t', 'nat')).split('\n');
  const ofWeb = /^-A (KUBE-(SERVICES|NODEPORTS) .*default\/web|KUBE-(EXT|SVC)-)/;
  return rules.filter((rule) => ofWeb.test(rule)).join('\n');
}

/** nft prints the maps. The agent does not need it, so it may be missing. */
async function mapsOfServices(lab: Lab): Promise<string> {
  const shown: string[] = [];
  for (const map of ['services', 'node-ports', 'backends']) {
    try {
      shown.push(await lab.exec('node', 'nft', 'list', 'map', 'ip', 'slicewire', map));
    } catch {
      return '(install nft to see the maps)';
    }
  }
  return shown.join('\n');
}

const REQUESTS = 60;
/** Each of three pods gets at least this many of 60 requests, except with a chance of one in a million. */
const MIN_SHARE = 5;

const [FIRST, SECOND] = OUTSIDE.servers;

const STEPS: readonly DemoStep[] = [
  { title: `a client outside the cluster connects to node port ${WEB.nodePort}`, run: nodePort },
  { title: `the node connects to the cluster IP ${WEB.clusterIP}`, run: clusterIP },
  { title: 'each pod connects to its own Service, until it reaches itself (hairpin)', run: hairpin },
  { title: `a pod connects to a Service without endpoints, ${EMPTY.clusterIP}`, run: refused },
  { title: 'pod-3 leaves the EndpointSlice while the agent runs', run: edited },
  {
    title:
      'a Service with a selector and two Pods, without an EndpointSlice: the agent derives its endpoints from the Pods',
    run: selected,
  },
  {
    title: `a Service without a selector, with Endpoints for two servers outside the cluster, ${OUTSIDE.servers.join(' and ')}`,
    run: outside,
  },
  { title: `a canary of the weight ${CANARY.weight} beside an endpoint of the weight 100`, run: canary },
  { title: 'a Pod vanishes, and a client with an open connection to it learns it at once', run: vanished },
];

export function stepsOf(mode: ModeName): readonly DemoStep[] {
  if (mode === 'iptables') return STEPS;
  const title = `the agent restarts with --mode=iptables, then with --mode=${mode}, while a client keeps connecting`;
  return [...STEPS, { title, run: switched }];
}

async function outside({ lab, agent, folder, mode }: Scene): Promise<StepResult> {
  // The servers are the machine of the client, and another node.
  const hosts = [
    { name: 'client', address: FIRST, via: LAB.client.v4 },
    { name: 'other', address: SECOND, via: LAB.otherNode.v4 },
  ];
  for (const { name, address, via } of hosts) {
    await lab.exec(name, 'ip', 'address', 'add', `${address}/32`, 'dev', 'lo');
    await lab.exec('node', 'ip', 'route', 'add', address, 'via', via);
    await lab.serve(name, 'TCP', OUTSIDE.serverPort, address);
  }
  const since = agent.log.length;
  await writeFile(join(folder, 'outside.yaml'), outsideYaml());
  await agent.synced(since, SYNC_TIMEOUT_MS);
  const answers = await askMany(lab, 'pod-1', OUTSIDE.clusterIP, OUTSIDE.port);
  const by = answers.map(
    (answer) => hosts.find(({ name }) => name === answerText(answer))?.address ?? answerText(answer),
  );
  const shares = balanced(answers, 2);
  const intro = `${indent(outsideYaml())}\n`;
  if (mode !== 'ipvs') return { succeeded: shares.succeeded, seen: `${intro}${shares.seen}` };
  // Round robin: the servers take turns.
  const isInTurn = by.every((who, i) => who === by[i % 2]);
  const text = `${intro}requests of pod-1 to ${OUTSIDE.clusterIP}, the first ten:\n${by.slice(0, 10).join('\n')}\n\n${await ipvsState(lab)}`;
  return { succeeded: shares.succeeded && isInTurn, seen: text };
}

async function selected({ lab, agent, folder }: Scene): Promise<StepResult> {
  const save = async (name: string, yaml: string) => {
    const since = agent.log.length;
    await writeFile(join(folder, name), yaml);
    await agent.synced(since, SYNC_TIMEOUT_MS);
  };
  await writeFile(join(folder, 'shop-pods.yaml'), podsYaml([1, 2]));
  await save('shop.yaml', selectingYaml());
  const two = balanced(await askMany(lab, 'client', SELECTING.clusterIP, SELECTING.port), 2);
  await save('shop-pods.yaml', podsYaml([2]));
  const one = balanced(await askMany(lab, 'client', SELECTING.clusterIP, SELECTING.port), 1);
  const seen = `${indent(`${selectingYaml()}---\n${podsYaml([1])}`)}\n    (and pod-2)\n${two.seen}\nwithout the manifest of pod-1: ${one.seen}`;
  return { succeeded: two.succeeded && one.succeeded, seen };
}

/** A tenth of these, give or take more than chance does once in a million times. */
const CANARY_REQUESTS = 200;
const CANARY_SHARE = { least: 3, most: 50 } as const;

async function canary({ lab, agent, folder }: Scene): Promise<StepResult> {
  const since = agent.log.length;
  await writeFile(join(folder, 'canary.yaml'), canaryYaml());
  await agent.synced(since, SYNC_TIMEOUT_MS);
  const counts = new Map<string, number>();
  for (let n = 0; n < CANARY_REQUESTS; n++) {
    const by = answerText(
      await lab.ask('pod-3', { address: CANARY.clusterIP, port: CANARY.port, timeout: SLOW_REQUEST_TIMEOUT_MS }),
    );
    counts.set(by, (counts.get(by) ?? 0) + 1);
  }
  const [stable = 0, fresh = 0] = [counts.get('pod-1'), counts.get('pod-2')];
  const isRight = fresh >= CANARY_SHARE.least && fresh <= CANARY_SHARE.most && stable + fresh === CANARY_REQUESTS;
  const shown = [...counts].map(([by, count]) => `${count} requests answered by ${by}`).sort();
  return { succeeded: isRight, seen: `${indent(canaryYaml())}\n${shown.join('\n')}` };
}

async function vanished({ lab, agent, folder }: Scene): Promise<StepResult> {
  const client = podAddress(1).v4;
  const save = async (state: 'ready' | 'ending' | 'gone') => {
    const since = agent.log.length;
    await writeFile(join(folder, 'vanishing.yaml'), vanishingYaml(state));
    await agent.synced(since, SYNC_TIMEOUT_MS);
  };
  const ask = async () => {
    const began = performance.now();
    const at = { address: VANISHING.clusterIP, port: VANISHING.port, timeout: SLOW_REQUEST_TIMEOUT_MS, keep: 'open' };
    const text = answerText(await lab.ask('pod-1', at));
    return { text, time: performance.now() - began };
  };
  await save('ready');
  const before = await ask();
  await save('ending');
  // As if it were switched off: it closes nothing, and nothing of it arrives any more.
  await lab.exec('pod-3', 'ip', 'route', 'add', 'blackhole', client);
  try {
    await save('gone');
    const [told, after] = [await ask(), await ask()];
    const seen = [
      `the open connection: answered by ${before.text}`,
      `after pod-3 vanished, the next request on it: ${told.text} after ${told.time.toFixed(1)} ms (without --reset-gone it hangs for a quarter of an hour)`,
      `the client connects again: answered by ${after.text}`,
    ];
    // A keep-alive probe of the client may have met the reset before.
    const isTold = ['ECONNRESET', 'pod-2'].includes(told.text);
    return { succeeded: before.text === 'pod-3' && isTold && after.text === 'pod-2', seen: seen.join('\n') };
  } finally {
    await lab.exec('pod-3', 'ip', 'route', 'delete', 'blackhole', client);
  }
}

/** The timeout of a request while other processes start. */
const SLOW_REQUEST_TIMEOUT_MS = 10_000;

async function switched(scene: Scene): Promise<StepResult> {
  const { lab } = scene;
  let isOn = true;
  const answers: string[] = [];
  const asking = (async () => {
    while (isOn) {
      answers.push(
        answerText(
          await lab.ask('client', { address: LAB.node.v4, port: WEB.nodePort, timeout: SLOW_REQUEST_TIMEOUT_MS }),
        ),
      );
    }
  })();
  const seen: string[] = [];
  for (const mode of ['iptables', scene.mode] as const) {
    await scene.agent.stop();
    scene.agent = scene.start(mode);
    const { steps } = await scene.agent.synced(0, SYNC_TIMEOUT_MS);
    const rules = (await lab.exec('node', 'iptables-save')).match(/-j DNAT/g)?.length ?? 0;
    seen.push(
      `--mode=${mode}: ${String(steps)} steps; ${rules} iptables rules translate addresses${await others(scene)}`,
    );
  }
  isOn = false;
  await asking;
  const bad = answers.filter((answer) => !answer.startsWith('pod-'));
  seen.push(`${answers.length} requests meanwhile, ${bad.length} of them failed`);
  return { succeeded: bad.length === 0 && answers.length > 0, seen: [...seen, ...bad.slice(0, 5)].join('\n') };
}

async function others({ lab, mode }: Scene): Promise<string> {
  if (mode !== 'ipvs') return '';
  const servers = (await lab.exec('node', 'ipvsadm', '-Sn')).match(/^-A/gm)?.length ?? 0;
  return `, ${servers} virtual servers (some may still drain connections)`;
}

async function nodePort({ lab }: Scene): Promise<StepResult> {
  return balanced(await askMany(lab, 'client', LAB.node.v4, WEB.nodePort), 3);
}

async function clusterIP({ lab }: Scene): Promise<StepResult> {
  return balanced(await askMany(lab, 'node', WEB.clusterIP, WEB.port), 3);
}

async function hairpin({ lab }: Scene): Promise<StepResult> {
  const seen: string[] = [];
  let succeeded = true;
  for (const pod of ['pod-1', 'pod-2', 'pod-3']) {
    const answers = await askMany(lab, pod, WEB.clusterIP, WEB.port);
    const own = answers.filter((answer) => answer.outcome === 'reply' && answer.by === pod);
    const [first] = own;
    const from = first?.outcome === 'reply' ? first.seen : 'no address';
    seen.push(`${pod} reached itself ${own.length} times, with ${from} as the client address`);
    succeeded &&= balanced(answers, 3).succeeded && own.length > 0 && from === LAB.bridge.v4;
  }
  return { succeeded, seen: seen.join('\n') };
}

async function refused({ lab }: Scene): Promise<StepResult> {
  const start = performance.now();
  const answer = await lab.ask('pod-1', { address: EMPTY.clusterIP, port: EMPTY.port });
  const milliseconds = (performance.now() - start).toFixed(0);
  return { succeeded: answer.outcome === 'refused', seen: `${answerText(answer)} after ${milliseconds} ms` };
}

async function edited({ lab, agent, folder, mode }: Scene): Promise<StepResult> {
  const since = agent.log.length;
  const start = performance.now();
  await writeFile(join(folder, 'web-slice.yaml'), sliceYaml([1, 2]));
  const line = await agent.synced(since, SYNC_TIMEOUT_MS);
  const milliseconds = (performance.now() - start).toFixed(0);
  const answers = await askMany(lab, 'client', LAB.node.v4, WEB.nodePort);
  const result = balanced(answers, 2);
  const { one, many } = SHOWN[mode];
  const written = line.steps === 1 ? `one ${one} was` : `${String(line.steps)} ${many} were`;
  const text = `${written} written ${milliseconds} ms after the file was saved (at most one sync a second)\n${result.seen}`;
  return { succeeded: result.succeeded, seen: text };
}

async function askMany(lab: Lab, from: string, address: string, port: number): Promise<HostAnswer[]> {
  const answers: HostAnswer[] = [];
  for (let i = 0; i < REQUESTS; i++) answers.push(await lab.ask(from, { address, port }));
  return answers;
}

/** Checks that every request was answered, by this many pods, in fair shares. */
function balanced(answers: readonly HostAnswer[], pods: number): StepResult {
  const counts = new Map<string, number>();
  for (const answer of answers) counts.set(answerText(answer), (counts.get(answerText(answer)) ?? 0) + 1);
  const sorted = [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
  const succeeded =
    answers.every((answer) => answer.outcome === 'reply') &&
    counts.size === pods &&
    sorted.every(([, count]) => count >= MIN_SHARE);
  return { succeeded, seen: `${answers.length} requests: ${sorted.map(([who, n]) => `${who} ${n}`).join(', ')}` };
}

function answerText(answer: HostAnswer): string {
  if (answer.outcome === 'reply') return answer.by;
  return answer.outcome === 'error' ? answer.error : answer.outcome;
}
