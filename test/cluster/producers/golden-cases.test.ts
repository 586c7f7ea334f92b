/**
 * slicewire's controllers write what kube-controller-manager 1.36 wrote for the same objects, step by step, and leave alone what it
 * wrote (test/data/golden/1.36; `real-controller.ts` records them).
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { describe, it, type TestContext } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { ControllerRig } from '../../controller/rig.ts';
import { aWhile, until } from '../../helpers/base/until.ts';
import type { ApiObject } from '../../helpers/cluster/api/api-server.ts';
import { byService, type Times, type Written } from './golden.ts';
import { CASES } from './real-cases.ts';
import type { Objects, Recorded } from './real-objects.ts';

const FOLDER = new URL('../../data/golden/1.36/', import.meta.url);
/** Changes of the Pods of a step are one change, as they were when it was recorded. */
const FLAGS = { endpointsliceUpdatesBatchPeriod: '100ms', endpointUpdatesBatchPeriod: '100ms' };

function read(name: string): Recorded {
  const plain = new URL(`${name}.json`, FOLDER);
  const text = existsSync(plain) ? readFileSync(plain) : gunzipSync(readFileSync(new URL(`${name}.json.gz`, FOLDER)));
  return JSON.parse(text.toString('utf8')) as Recorded;
}

const KINDS = { pods: 'Pod', services: 'Service', endpoints: 'Endpoints', endpointSlices: 'EndpointSlice' } as const;

type Kind = keyof typeof KINDS;
type Named = { readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> } };

/** What people wrote of a resource, by name. */
function inputs(state: Objects | undefined, kind: Kind): Map<string, Named> {
  if (kind === 'endpointSlices') return new Map();
  const isOfController = ({ metadata }: Named) =>
    metadata.labels?.['endpoints.kubernetes.io/managed-by'] === 'endpoint-controller';
  const written = ((state?.[kind] ?? []) as readonly Named[]).filter((one) => !isOfController(one));
  return new Map(written.map((object) => [object.metadata.name, object]));
}

/** A server with the Nodes of a case. */
async function rigOf(t: TestContext, nodes: readonly object[]): Promise<ControllerRig> {
  const rig = await ControllerRig.create(t);
  for (const node of nodes) rig.server.put({ kind: 'Node', ...node } as unknown as ApiObject);
  return rig;
}

function put(rig: ControllerRig, kind: Kind, object: object): void {
  rig.server.put({ kind: KINDS[kind], ...object } as unknown as ApiObject);
}

/** From one recorded state to the next, as people changed it. */
function change(rig: ControllerRig, namespace: string, before: Objects | undefined, after: Objects): void {
  for (const kind of ['pods', 'services', 'endpoints'] as const) {
    const [had, has] = [inputs(before, kind), inputs(after, kind)];
    const kept = new Set((after[kind] as readonly Named[]).map(({ metadata }) => metadata.name));
    for (const [name, object] of has) if (!isDeepStrictEqual(had.get(name), object)) put(rig, kind, object);
    for (const name of had.keys()) if (!kept.has(name)) rig.server.delete(KINDS[kind], `${namespace}/${name}`);
  }
}

function written(rig: ControllerRig, times: Times): Map<string, unknown> {
  const [endpointSlices, endpoints] = [rig.server.objects('EndpointSlice'), rig.server.objects('Endpoints')];
  return byService({ endpointSlices, endpoints } as unknown as Written, times);
}

describe('the objects of kube-controller-manager 1.36', () => {
  for (const { name, isRewritten } of CASES) {
    const times = isRewritten ? 'ignored' : 'exact';
    it(`${name}: the same are written, step by step`, async (t) => {
      const { nodes, steps } = read(name);
      const rig = await rigOf(t, nodes);
      assert.ok(steps.length > 0, name);
      let before: Objects | undefined;
      for (const [i, step] of steps.entries()) {
        change(rig, name, before, step);
        if (i === 0) await rig.start(FLAGS);
        const wanted = byService(step as unknown as Written, times);
        await until(step.title, () => isDeepStrictEqual(written(rig, times), wanted)).catch(() => undefined);
        assert.deepEqual(written(rig, times), wanted, step.title);
        before = step;
      }
    });

    it(`${name}: they are left alone`, async (t) => {
      const { nodes, steps } = read(name);
      assert.ok(steps.length > 0, name);
      for (const step of steps) {
        const rig = await rigOf(t, nodes);
        for (const kind of Object.keys(KINDS) as Kind[]) for (const object of step[kind]) put(rig, kind, object);
        const running = await rig.start(FLAGS);
        await until('all is watched', () => rig.server.watches === Object.keys(KINDS).length + 1);
        await aWhile(200);
        await running.stop();
        assert.deepEqual(
          rig.server.requests({ kind: 'write' }).map(({ method, path }) => `${method} ${path}`),
          [],
          step.title,
        );
      }
    });
  }
});
