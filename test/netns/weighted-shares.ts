/** Shares of many real connections by weights: whether chance alone explains the difference from what the weights say. */
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { cluster } from '../conformance/cluster.ts';
import { PORT, podsWith, web } from '../conformance/stories/build.ts';
import type { TestedMode } from './story-packets.ts';

const CLIENT = fileURLToPath(new URL('../helpers/cli/lab/many-connections.ts', import.meta.url));
/** The value of chi-squared with two degrees of freedom that chance exceeds once in a million. */
const CHI_SQUARED = 27.6;
/** Of 110: nine tenths and more for the first, a canary of a tenth, and a little one. */
const WEIGHTS = { 'pod-1': 97, 'pod-2': 11, other: 2 } as const;

/** Throws an AssertionError where the shares are not those of the weights. Returns them for people. */
export async function assertWeightedShares(lab: Lab, mode: TestedMode, connections: number): Promise<string> {
  const w = cluster('IPv4');
  const weights = Object.fromEntries(
    Object.entries(WEIGHTS).map(([name, weight]) => [w.address(name as keyof typeof WEIGHTS), weight]),
  );
  const annotations = { 'slicewire.dev/weight': JSON.stringify(weights) };
  const state = { objects: [web(w), podsWith(w, { annotations }, ['pod-1', 'pod-2', 'other'])], packets: [] };
  const rig = (await mode.open(state, 'IPv4')).become(state);
  assert.equal((await rig.sync()).outcome, 'complete');
  await mode.onSynced?.();
  const out = await lab.exec('pod-3', process.execPath, CLIENT, w.clusterIP(10), String(PORT), String(connections));
  const counts = JSON.parse(out) as Record<string, number>;
  assert.deepEqual(new Set(Object.keys(counts)), new Set(Object.keys(WEIGHTS)), out);
  const all = Object.values(WEIGHTS).reduce((sum, weight) => sum + weight, 0);
  let chiSquared = 0;
  for (const [name, weight] of Object.entries(WEIGHTS)) {
    const [count = 0, meant] = [counts[name], (connections * weight) / all];
    chiSquared += (count - meant) ** 2 / meant;
  }
  assert.ok(chiSquared < CHI_SQUARED, `${chiSquared}: ${out}`);
  return `${out.trim()} of ${connections}, chi-squared ${chiSquared.toFixed(1)}`;
}
