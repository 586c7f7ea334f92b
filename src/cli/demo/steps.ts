/** What the demo shows: each step asks with real traffic and says whether the answers are right. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { AgentProcess } from './agent-process.ts';
import type { Answer } from './host-protocol.ts';
import { LAB, type Lab } from './lab.ts';
import { EMPTY, sliceYaml, WEB } from './manifests.ts';

export interface Scene {
  readonly lab: Lab;
  readonly agent: AgentProcess;
  readonly folder: string;
}

export interface StepResult {
  readonly behaved: boolean;
  readonly seen: string;
}

export interface DemoStep {
  readonly title: string;
  readonly run: (scene: Scene) => Promise<StepResult>;
}

const REQUESTS = 60;
/** Fewest of 60 requests that each of three pods gets, but for a chance in a million. */
const FAIR = 5;

export const STEPS: readonly DemoStep[] = [
  { title: `a client outside asks the node's port ${WEB.nodePort}`, run: nodePort },
  { title: `the node asks the Service's address ${WEB.clusterIP}`, run: clusterIP },
  { title: 'each pod asks the Service that it is part of, until it reaches itself (hairpin)', run: hairpin },
  { title: `a pod asks a Service without endpoints, ${EMPTY.clusterIP}`, run: refused },
  { title: 'pod-3 is taken out of the slice while the agent runs', run: edited },
];

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

async function edited({ lab, agent, folder }: Scene): Promise<StepResult> {
  const since = agent.log.length;
  const start = performance.now();
  await writeFile(join(folder, 'web-slice.yaml'), sliceYaml([1, 2]));
  const line = await agent.synced(since);
  const milliseconds = (performance.now() - start).toFixed(0);
  const answers = await askMany(lab, 'client', LAB.node.v4, WEB.nodePort);
  const result = balanced(answers, 2);
  const chains = line.steps === 1 ? 'one chain was' : `${String(line.steps)} chains were`;
  const text = `the file was saved, and ${milliseconds} ms later (at most one sync a second) ${chains} written\n${result.seen}`;
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
