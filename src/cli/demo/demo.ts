/** `slicewire demo`: shows the proxy at work without a cluster, with real traffic in private network namespaces. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CannotRun } from '../../agent/cannot-run.ts';
import { realCommands } from '../../kernel/commands.ts';
import { mayChangeNetwork } from '../../kernel/node-facts.ts';
import type { ModeName } from '../../proxy/model/modes.ts';
import { AgentProcess } from '../lab/agent-process.ts';
import { LAB, Lab } from '../lab/lab.ts';
import { POD_PORT, servicesYaml, sliceYaml } from './manifests.ts';
import { type DemoStep, indent, type Scene, SHOWN, SYNC_TIMEOUT_MS, stepsOf } from './steps.ts';

export interface DemoOptions {
  readonly mode: ModeName;
  readonly signal: AbortSignal;
  readonly print: (text: string) => void;
}

const PODS = ['pod-1', 'pod-2', 'pod-3'];

/** Resolves with the exit status: 0 when every step succeeded. Removes everything that it made, also after a failure. */
export async function demoCommand({ mode, signal, print }: DemoOptions): Promise<number> {
  if (!(await mayChangeNetwork())) throw new CannotRun('the demo creates network namespaces: run it as root');
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-demo-'));
  const remove: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true })];
  try {
    const scene = await prepare({ mode, folder, remove, signal, print });
    const steps = stepsOf(mode);
    const failed = await show(steps, scene, print);
    print('');
    print(failed === 0 ? `all ${steps.length} steps succeeded` : `${failed} of ${steps.length} steps failed`);
    if (failed > 0) print(`log of the agent:\n${scene.agent.text()}`);
    return failed === 0 ? 0 : 1;
  } finally {
    for (const undo of remove.reverse()) await undo();
    print('the namespaces, the agent and the manifests are removed');
  }
}

interface PrepareOptions extends DemoOptions {
  readonly folder: string;
  readonly remove: (() => Promise<unknown>)[];
}

async function prepare({ mode, folder, remove, signal, print }: PrepareOptions): Promise<Scene> {
  print('A node with three pods on a bridge, and a client outside the cluster, each in its own network namespace:');
  print('');
  print('    pod-1 10.244.1.11 ─┐');
  print(`    pod-2 10.244.1.12 ─┼─ node ${LAB.node.v4} ─── client ${LAB.client.v4}`);
  print('    pod-3 10.244.1.13 ─┘');
  print('');
  const lab = await Lab.create({ commands: realCommands, pods: PODS.length, remotePods: 0, signal });
  remove.push(() => lab.remove());
  for (const pod of PODS) await lab.serve(pod, 'TCP', POD_PORT);
  await writeFile(join(folder, 'services.yaml'), servicesYaml());
  await writeFile(join(folder, 'web-slice.yaml'), sliceYaml([1, 2, 3]));
  print(`The Services of the demo, in a folder of manifests:\n\n${indent(servicesYaml())}\n`);
  // A namespace cannot set the size of the conntrack table: it belongs to the machine.
  const machine = ['--conntrack-max-per-core', '0'];
  const node = ['--hostname-override', 'node', '--cluster-cidr', '10.244.0.0/16', '--reset-gone'];
  const start = (of: ModeName) =>
    new AgentProcess(lab, ['run', `--mode=${of}`, '--manifests', folder, ...node, ...machine]);
  print(`In the node: slicewire run --mode=${mode} --manifests FOLDER ${[...node, ...machine].join(' ')}`);
  const scene: Scene = { lab, folder, mode, start, agent: start(mode) };
  remove.push(() => scene.agent.stop());
  const line = await scene.agent.synced(0, SYNC_TIMEOUT_MS);
  const { written, where, state } = SHOWN[mode];
  print(`It wrote ${String(line.steps)} ${written} in ${String(line.milliseconds)} ms. ${where}\n`);
  print(indent(await state(lab)));
  return scene;
}

async function show(steps: readonly DemoStep[], scene: Scene, print: DemoOptions['print']): Promise<number> {
  let failed = 0;
  for (const [i, step] of steps.entries()) {
    const { succeeded, seen } = await step.run(scene);
    print(`\n${succeeded ? '✓' : '✗'} ${i + 1}. ${step.title}\n${indent(seen)}`);
    if (!succeeded) failed += 1;
  }
  return failed;
}
