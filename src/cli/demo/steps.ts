/** What the demo shows: each step asks with real traffic and says whether the answers are right. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Answer } from '../../lab/host-protocol.ts';
import { LAB, type Lab } from '../../lab/lab.ts';
import { EMPTY, OUTSIDE, outsideYaml, podsYaml, SELECTING, selectingYaml, sliceYaml, WEB } from './manifests.ts';
import { type DemoMode, type DemoStep, indent, PATIENCE, type Scene, type StepResult } from './scene.ts';
import { ipvsState, SHOWN } from './shown.ts';

const REQUESTS = 60;
/** Fewest of 60 requests that each of three pods gets, but for a chance in a million. */
const FAIR = 5;

const [FIRST, SECOND] = OUTSIDE.servers;

const STEPS: readonly DemoStep[] = [
  { title: `a client outside asks the node's port ${WEB.nodePort}`, run: nodePort },
  { title: `the node asks the Service's address ${WEB.clusterIP}`, run: clusterIP },
  { title: 'each pod asks the Service that it is part of, until it reaches itself (hairpin)', run: hairpin },
  { title: `a pod asks a Service without endpoints, ${EMPTY.clusterIP}`, run: refused },
  { title: 'pod-3 is taken out of the slice while the agent runs', run: edited },
  { title: 'a Service with a selector and two Pods, and no slice: its endpoints follow from the Pods', run: selected },
  {
    title: `a Service without a selector and Endpoints of its name, before two outside servers, ${OUTSIDE.servers.join(' and ')}`,
    run: outside,
  },
];

export function stepsOf(mode: DemoMode): readonly DemoStep[] {
  if (mode === 'iptables') return STEPS;
  const title = `the agent starts again with --mode=iptables, and again with --mode=${mode}, while a client asks on`;
  return [...STEPS, { title, run: switched }];
}

async function outside({ lab, agent, folder, mode }: Scene): Promise<StepResult> {
  // The servers are hosts outside: one is the client's machine, the other that of another node.
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
  await agent.synced(since, PATIENCE);
  const answers = await askMany(lab, 'pod-1', OUTSIDE.clusterIP, OUTSIDE.port);
  const by = answers.map(
    (answer) => hosts.find(({ name }) => name === answerText(answer))?.address ?? answerText(answer),
  );
  const shares = balanced(answers, 2);
  const intro = `${indent(outsideYaml())}\n`;
  if (mode !== 'ipvs') return { behaved: shares.behaved, seen: `${intro}${shares.seen}` };
  // Round robin: they take turns.
  const isInTurn = by.every((who, i) => who === by[i % 2]);
  const text = `${intro}requests of pod-1 to ${OUTSIDE.clusterIP}, the first ten:\n${by.slice(0, 10).join('\n')}\n\n${await ipvsState(lab)}`;
  return { behaved: shares.behaved && isInTurn, seen: text };
}

async function selected({ lab, agent, folder }: Scene): Promise<StepResult> {
  const save = async (name: string, yaml: string) => {
    const since = agent.log.length;
    await writeFile(join(folder, name), yaml);
    await agent.synced(since, PATIENCE);
  };
  await writeFile(join(folder, 'shop-pods.yaml'), podsYaml([1, 2]));
  await save('shop.yaml', selectingYaml());
  const two = balanced(await askMany(lab, 'client', SELECTING.clusterIP, SELECTING.port), 2);
  await save('shop-pods.yaml', podsYaml([2]));
  const one = balanced(await askMany(lab, 'client', SELECTING.clusterIP, SELECTING.port), 1);
  const seen = `${indent(`${selectingYaml()}---\n${podsYaml([1])}`)}\n    (and pod-2)\n${two.seen}\nwithout the manifest of pod-1: ${one.seen}`;
  return { behaved: two.behaved && one.behaved, seen };
}

/** Milliseconds for one request while processes start beside it. */
const PATIENT = 10_000;

async function switched(scene: Scene): Promise<StepResult> {
  const { lab } = scene;
  let isOn = true;
  const answers: string[] = [];
  const asking = (async () => {
    while (isOn) {
      answers.push(answerText(await lab.ask('client', { address: LAB.node.v4, port: WEB.nodePort, timeout: PATIENT })));
    }
  })();
  const seen: string[] = [];
  for (const mode of ['iptables', scene.mode] as const) {
    await scene.agent.stop();
    scene.agent = scene.start(mode);
    const { steps } = await scene.agent.synced(0, PATIENCE);
    const rules = (await lab.exec('node', 'iptables-save')).match(/-j DNAT/g)?.length ?? 0;
    seen.push(`--mode=${mode}: ${String(steps)} steps; ${rules} rules of iptables translate${await others(scene)}`);
  }
  isOn = false;
  await asking;
  const bad = answers.filter((answer) => !answer.startsWith('pod-'));
  seen.push(`${answers.length} requests meanwhile, ${bad.length} of them without an answer`);
  return { behaved: bad.length === 0 && answers.length > 0, seen: [...seen, ...bad.slice(0, 5)].join('\n') };
}

async function others({ lab, mode }: Scene): Promise<string> {
  if (mode !== 'ipvs') return '';
  const servers = (await lab.exec('node', 'ipvsadm', '-Sn')).match(/^-A/gm)?.length ?? 0;
  return `, ${servers} virtual servers (some may wait for connections to end)`;
}

async function nodePort({ lab }: Scene): Promise<StepResult> {
  return balanced(await askMany(lab, 'client', LAB.node.v4, WEB.nodePort), 3);
}

async function clusterIP({ lab }: Scene): Promise<StepResult> {
  return balanced(await askMany(lab, 'node', WEB.clusterIP, WEB.port), 3);
}

async function hairpin({ lab }: Scene): Promise<StepResult> {
  const seen: string[] = [];
  let behaved = true;
  for (const pod of ['pod-1', 'pod-2', 'pod-3']) {
    const answers = await askMany(lab, pod, WEB.clusterIP, WEB.port);
    const own = answers.filter((answer) => answer.outcome === 'reply' && answer.by === pod);
    const [first] = own;
    const from = first?.outcome === 'reply' ? first.seen : 'nobody';
    seen.push(`${pod} reached itself ${own.length} times, and saw ${from} as the client`);
    behaved &&= balanced(answers, 3).behaved && own.length > 0 && from === LAB.bridge.v4;
  }
  return { behaved, seen: seen.join('\n') };
}

async function refused({ lab }: Scene): Promise<StepResult> {
  const start = performance.now();
  const answer = await lab.ask('pod-1', { address: EMPTY.clusterIP, port: EMPTY.port });
  const milliseconds = (performance.now() - start).toFixed(0);
  return { behaved: answer.outcome === 'refused', seen: `${answerText(answer)} after ${milliseconds} ms` };
}

async function edited({ lab, agent, folder, mode }: Scene): Promise<StepResult> {
  const since = agent.log.length;
  const start = performance.now();
  await writeFile(join(folder, 'web-slice.yaml'), sliceYaml([1, 2]));
  const line = await agent.synced(since, PATIENCE);
  const milliseconds = (performance.now() - start).toFixed(0);
  const answers = await askMany(lab, 'client', LAB.node.v4, WEB.nodePort);
  const result = balanced(answers, 2);
  const { one, many } = SHOWN[mode];
  const written = line.steps === 1 ? `one ${one} was` : `${String(line.steps)} ${many} were`;
  const text = `the file was saved, and ${milliseconds} ms later (at most one sync a second) ${written} written\n${result.seen}`;
  return { behaved: result.behaved, seen: text };
}

async function askMany(lab: Lab, from: string, address: string, port: number): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (let i = 0; i < REQUESTS; i++) answers.push(await lab.ask(from, { address, port }));
  return answers;
}

/** Every request answered, and by this many pods in fair shares. */
function balanced(answers: readonly Answer[], pods: number): StepResult {
  const counts = new Map<string, number>();
  for (const answer of answers) counts.set(answerText(answer), (counts.get(answerText(answer)) ?? 0) + 1);
  const sorted = [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
  const behaved =
    answers.every((answer) => answer.outcome === 'reply') &&
    counts.size === pods &&
    sorted.every(([, count]) => count >= FAIR);
  return { behaved, seen: `${answers.length} requests: ${sorted.map(([who, n]) => `${who} ${n}`).join(', ')}` };
}

function answerText(answer: Answer): string {
  if (answer.outcome === 'reply') return answer.by;
  return answer.outcome === 'error' ? answer.error : answer.outcome;
}
