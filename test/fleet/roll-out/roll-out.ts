/** Replaces the Pods of a Service under load, with a hook before each end, and counts what failed. */

import assert from 'node:assert/strict';
import { realClock, sleep } from '../../../src/base/clock.ts';
import { startChild } from '../../../src/kernel/commands.ts';
import { SLICEWIRE } from '../../helpers/cli/slicewire.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import type { Pod } from '../../upstream/e2e/kubelet.ts';
import type { Request } from './load.ts';
import type { Scene } from './scene.ts';

/** What waits before a Pod gets SIGTERM. Resolves with the moment of a yes of the fleet; undefined: nobody said one. */
export type Hook = (scene: Scene, pod: Pod) => Promise<number | undefined>;

export const nothing: Hook = () => Promise.resolve(undefined);

export const sleeps =
  (milliseconds: number): Hook =>
  async () => {
    await sleep(realClock, milliseconds, NEVER);
    return undefined;
  };

/** The kubelet's own request: from the node, once, to the fleet's cluster IP, the same path for all Pods. */
export const httpGet: Hook = async (scene, pod) => {
  const namespace = scene.cluster.network.namespace(pod.node.name);
  const { status, at } = await scene.askFleet(namespace, '/drained?service=shop/web&timeout=60s');
  return status === 200 ? at : undefined;
};

/** `slicewire drained` in the container: the program of the sources, or an executable. */
export const command =
  (...program: readonly string[]): Hook =>
  async (scene, pod) => {
    const { address, port } = scene.fleet;
    const flags = [
      '--pod',
      pod.key,
      '--timeout',
      '60s',
      '--fleet',
      `http://${address}:${port}`,
      '--token-file',
      scene.tokenFile,
    ];
    const child = startChild({
      file: 'ip',
      args: [
        'netns',
        'exec',
        pod.networkNamespace,
        ...(program.length === 0 ? SLICEWIRE : program),
        'drained',
        ...flags,
      ],
    });
    return (await child.ended) === 0 ? performance.now() : undefined;
  };

export interface RollOutOptions {
  readonly pods: number;
  /** Pods above that number while it goes on (maxSurge; maxUnavailable is 0). */
  readonly surge: number;
  /** Requests a second. */
  readonly rate: number;
  readonly hook: Hook;
  /** Called when half of the Pods are replaced. */
  readonly halfway?: () => Promise<void>;
}

export interface RollOut {
  readonly requests: number;
  readonly failed: readonly Request[];
  /** Requests that went to a Pod although they began after the fleet had said that nobody sends to it any more. */
  readonly late: readonly Request[];
  /** Until the last of the former Pods is gone. */
  readonly seconds: number;
  /** Seconds that the hooks took, in order of their lengths. */
  readonly waits: readonly number[];
  /** Hooks that had no yes. */
  readonly without: number;
}

/** Milliseconds that a new Pod needs to be ready. */
const START = 500;
let rollOuts = 0;

/** The Pods of the Service before it are those that the scene has. */
export async function rollOut(scene: Scene, options: RollOutOptions): Promise<RollOut> {
  const { pods, surge, rate, hook, halfway } = options;
  const former = [...scene.pods.keys()];
  assert.equal(former.length, pods);
  const n = ++rollOuts;
  const load = scene.load(rate);
  await sleep(realClock, 1000, NEVER);
  const began = performance.now();
  const said: { name: string; wait: number; yes: number | undefined }[] = [];
  const ends: Promise<void>[] = [];
  let replaced = 0;
  const next = former.values();
  const replace = async () => {
    for (const name of next) {
      await sleep(realClock, START, NEVER);
      await scene.startPod(`web-${n}-${name.split('-').at(-1)}`);
      const asked = performance.now();
      ends.push(
        scene.endPod(name, async (pod) => {
          const yes = await hook(scene, pod);
          said.push({ name, wait: performance.now() - asked, yes });
        }),
      );
      if (++replaced === Math.ceil(pods / 2)) await halfway?.();
    }
  };
  await Promise.all(Array.from({ length: surge }, replace));
  await Promise.all(ends);
  const seconds = (performance.now() - began) / 1000;
  await sleep(realClock, 1000, NEVER);
  await load.stop();
  return {
    requests: load.requests.length,
    failed: load.failed,
    late: said.flatMap(({ name, yes }) => (yes === undefined ? [] : load.after(yes, name))),
    seconds,
    waits: said.map(({ wait }) => wait / 1000).sort((a, b) => a - b),
    without: said.filter(({ yes }) => yes === undefined).length,
  };
}
