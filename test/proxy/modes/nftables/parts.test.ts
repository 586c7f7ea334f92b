/** A first sync of very many Services plans and writes them in parts; what is in the kernel then is the same. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import type { FakeNft } from '../../../helpers/kernel/fake-nft.ts';
import { type NftRig, type NftRigOptions, nftRig } from '../../../helpers/proxy/nft-rig.ts';

const SERVICES = 7500;

/** A line of a plan about an element of a Service. */
const ELEMENT = /^\+ (services|backends|cluster-ips) /;

const addressOf = (net: number, n: number) => `10.${net}.${n >> 8}.${n & 255}`;

function objects(n: number): object[] {
  const name = `web-${n}`;
  const spec = { clusterIP: addressOf(96, n), ports: [{ port: 80 }] };
  return [service({ name, spec }), slice({ name: `${name}-1`, service: name, endpoints: [addressOf(128, n)] })];
}

/** An agent with all Services before its first sync, and the number of steps of each plan. */
function many(options: NftRigOptions = {}): NftRig & { readonly plans: number[] } {
  const plans: number[] = [];
  const made = nftRig({ families: ['IPv4'], onPlan: ({ steps }) => plans.push(steps.length), ...options });
  for (let n = 0; n < SERVICES; n++) made.rig.put(...objects(n));
  return { ...made, plans };
}

const sizeOf = (kernel: FakeNft, set: string) => kernel.tables.get('IPv4')?.sets.get(set)?.elements.size;

describe('very many new Services', () => {
  it('are planned in parts, and all are written by one sync', async () => {
    const { rig, kernel, plans } = many();
    const report = await rig.sync();
    assert.deepEqual([report.outcome, report.failed], ['complete', []]);
    assert.ok(plans.length >= 2, `plans of ${plans} steps`);
    assert.ok(Math.max(...plans) < SERVICES);
    assert.deepEqual([sizeOf(kernel, 'services'), sizeOf(kernel, 'backends')], [SERVICES, SERVICES]);
    assert.equal(
      report.applied,
      plans.reduce((sum, steps) => sum + steps),
    );
    assert.equal((await rig.sync()).applied, 0);
  });

  it('have parts of as many elements, however many endpoints a Service has and whichever set they are in', async () => {
    const elements: number[] = [];
    const made = nftRig({
      families: ['IPv4'],
      onPlan: ({ steps }) =>
        elements.push(steps.flatMap((step) => step.lines()).filter((line) => ELEMENT.test(line)).length),
    });
    for (let n = 0; n < 4000; n++) {
      const name = `web-${n}`;
      const spec = { clusterIP: addressOf(96, n), ports: [{ port: 80 }] };
      const endpoints = Array.from({ length: n < 200 ? 50 : 1 }, (_, i) => addressOf(128 + i, n));
      made.rig.put(service({ name, spec }), slice({ name: `${name}-1`, service: name, endpoints }));
    }
    await made.rig.sync();
    assert.equal(
      elements.reduce((sum, count) => sum + count),
      4000 + 200 * 50 + 3800 + 4000,
    );
    assert.ok(Math.max(...elements) <= 2500 + 50, `parts of ${elements} elements`);
    assert.equal(sizeOf(made.kernel, 'cluster-ips'), 4000);
  });

  it('are all written before a cluster IP refuses ports that its Service does not have', async () => {
    const { rig, kernel } = many();
    const services: number[] = [];
    kernel.options = {
      ...kernel.options,
      onAnswer: () => {
        if ((sizeOf(kernel, 'cluster-ips') ?? 0) > 0) services.push(sizeOf(kernel, 'services') ?? 0);
      },
    };
    await rig.sync();
    assert.ok(services.length > 0);
    assert.deepEqual(new Set(services), new Set([SERVICES]));
    assert.equal(sizeOf(kernel, 'cluster-ips'), SERVICES);
  });

  it('are all in the plan that people ask for', async () => {
    const { rig } = many();
    const { plan } = await rig.loop.plan(new AbortController().signal);
    assert.ok(plan.steps.length > SERVICES);
  });

  it('are written but for those that the kernel refuses, in whichever part', async () => {
    const { rig, kernel } = many();
    const bad = ['10.128.0.7', '10.128.25.3'].map((text) => String.fromCharCode(...text.split('.').map(Number)));
    kernel.options = {
      ...kernel.options,
      refuses: (_, element) =>
        bad.some((one) => element?.data.startsWith(one)) ? 'EINVAL: invalid argument' : undefined,
    };
    const report = await rig.sync();
    assert.equal(report.outcome, 'partial');
    assert.deepEqual(report.failed.map(({ owner }) => owner).sort(), ['default/web-6403', 'default/web-7']);
    assert.equal(sizeOf(kernel, 'services'), SERVICES - 2);
  });

  it('are read back and written on after a part was lost', async () => {
    const { rig, kernel } = many();
    let commits = 0;
    kernel.options = {
      ...kernel.options,
      onAnswer: () => {
        commits += 1;
        if (commits === 4) throw new Error('no answer');
      },
    };
    assert.notEqual((await rig.sync()).outcome, 'complete');
    assert.equal((await rig.sync()).outcome, 'complete');
    assert.deepEqual([sizeOf(kernel, 'services'), sizeOf(kernel, 'backends')], [SERVICES, SERVICES]);
  });
});
