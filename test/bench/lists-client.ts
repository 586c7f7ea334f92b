/**
 * Reads the first lists of an agent into its cache, prints what that cost as one line of JSON, and ends. Arguments: a kubeconfig, and
 * whether the lists are streams (`stream`) or come in pages (`pages`). `lists.ts` starts it.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { realClock } from '../../src/base/clock.ts';
import { Cache } from '../../src/cluster/cache/cache.ts';
import { kubernetesSource } from '../../src/cluster/source/kubernetes.ts';
import { residentMemory } from './process-cost.ts';

const [, , kubeconfig = '', how] = process.argv;
const cache = new Cache();
const done = new AbortController();
const warnings: string[] = [];
const holds = monitorEventLoopDelay({ resolution: 1 });
holds.enable();
const [cpu, began] = [process.cpuUsage(), performance.now()];
const source = kubernetesSource({
  kubeconfig,
  master: undefined,
  nodeName: 'node-0',
  hasServiceCidrs: false,
  readsProtobuf: true,
  streamsLists: how === 'stream',
  userAgent: 'slicewire/bench',
  clock: realClock,
  log: { info: () => undefined, v2: () => undefined, warn: (_, text) => warnings.push(text) },
});
await source.run((event) => {
  cache.take(event);
  if (cache.isSynced) done.abort();
}, done.signal);
const { user, system } = process.cpuUsage(cpu);
const { peak, anonymous } = residentMemory(process.pid);
const counts = { services: [...cache.services()].length, warnings };
const time = { milliseconds: performance.now() - began, processor: (user + system) / 1000, hold: holds.max / 1e6 };
process.stdout.write(`${JSON.stringify({ ...counts, ...time, peak, anonymous })}\n`);
