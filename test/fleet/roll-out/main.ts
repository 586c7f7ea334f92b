/**
 * Measures roll-outs with each hook, and writes docs/fleet.json and the figures of docs/fleet.md. `node test/fleet/roll-out/main.ts dist/slicewire`
 * takes this executable for the hook that is a command; without it the sources run, which start more slowly.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { summary } from '../../bench/text.ts';
import { machineText } from '../../reliability/machine.ts';
import { type MeasuredVariant, withFigures } from './page.ts';
import { command, type Hook, httpGet, nothing, rollOut, sleeps } from './roll-out.ts';
import { Scene } from './scene.ts';

const [NODES, PODS, SURGE, RATE] = [4, 50, 10, 200];
const [executable] = process.argv.slice(2);

const VARIANTS: readonly (readonly [name: string, hook: Hook])[] = [
  ['nothing', nothing],
  ['`sleep: {seconds: 15}`', sleeps(15_000)],
  ['`httpGet` to the fleet', httpGet],
  ['`slicewire drained`', command(...(executable === undefined ? [] : [resolve(executable)]))],
];

const docs = (name: string) => fileURLToPath(new URL(`../../../docs/${name}`, import.meta.url));

async function measure(): Promise<MeasuredVariant[]> {
  const scene = await Scene.start({ mode: 'nftables', nodes: NODES });
  try {
    for (let n = 1; n <= PODS; n++) await scene.startPod(`web-0-${n}`);
    const measured: MeasuredVariant[] = [];
    for (const [name, hook] of VARIANTS) {
      await scene.settled();
      const { requests, failed, seconds, waits, without } = await rollOut(scene, {
        pods: PODS,
        surge: SURGE,
        rate: RATE,
        hook,
      });
      const { p50: half, most } = summary(waits);
      measured.push({ name, requests, failed: failed.length, seconds, wait: { half, most }, without });
      process.stderr.write(`${JSON.stringify(measured.at(-1))}\n`);
    }
    return measured;
  } finally {
    await scene.stop();
  }
}

const measured = {
  ranAt: new Date().toISOString(),
  machine: machineText(),
  ...{ nodes: NODES, pods: PODS, surge: SURGE, rate: RATE },
  variants: await measure(),
};
const rounded = (_: string, one: unknown) => (typeof one === 'number' ? Math.round(one * 1e3) / 1e3 : one);
writeFileSync(docs('fleet.json'), `${JSON.stringify(measured, rounded, 1)}\n`);
writeFileSync(docs('fleet.md'), withFigures(readFileSync(docs('fleet.md'), 'utf8'), measured));
