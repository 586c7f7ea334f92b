/** Incremental equals full (invariant 12), over random histories of real objects. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { FakeIptables } from '../../helpers/fake-iptables.ts';
import { service, slice } from '../../helpers/objects.ts';
import { Rig } from '../../helpers/rig.ts';

const NAMES = ['a', 'b', 'c', 'd'] as const;

const aService = fc.record({
  name: fc.constantFrom(...NAMES),
  ip: fc.integer({ min: 1, max: 3 }),
  ports: fc.uniqueArray(fc.integer({ min: 80, max: 82 }), { minLength: 1, maxLength: 2 }),
  nodePort: fc.constantFrom(0, 30_080, 30_081),
  internal: fc.constantFrom('Cluster', 'Local'),
  external: fc.constantFrom('Cluster', 'Local'),
  sticky: fc.boolean(),
  externalIP: fc.constantFrom(undefined, '192.0.2.1', '10.96.0.2'),
  vip: fc.constantFrom(undefined, '198.51.100.1'),
  range: fc.constantFrom(undefined, '10.0.0.0/8', '0.0.0.0/0'),
});
const aSlice = fc.record({
  service: fc.constantFrom(...NAMES),
  part: fc.constantFrom('1', '2'),
  endpoints: fc.array(
    fc.record({
      host: fc.integer({ min: 1, max: 6 }),
      node: fc.constantFrom('node', 'other', undefined),
      ready: fc.boolean(),
      terminating: fc.boolean(),
    }),
    { maxLength: 4 },
  ),
});
const aStep = fc.oneof(
  { weight: 3, arbitrary: aService.map((value) => ({ kind: 'service', value }) as const) },
  { weight: 4, arbitrary: aSlice.map((value) => ({ kind: 'slice', value }) as const) },
  { weight: 1, arbitrary: fc.constantFrom(...NAMES).map((value) => ({ kind: 'no service', value }) as const) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.constantFrom(...NAMES), fc.constantFrom('1', '2'))
      .map((value) => ({ kind: 'no slice', value }) as const),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'sync' } as const) },
);
type Step = typeof aStep extends fc.Arbitrary<infer T> ? T : never;

function serviceObject(value: Extract<Step, { kind: 'service' }>['value']): object {
  const { name, ip, ports, nodePort, internal, external, sticky, externalIP, vip, range } = value;
  return service({
    name,
    spec: {
      type: vip === undefined ? (nodePort === 0 ? 'ClusterIP' : 'NodePort') : 'LoadBalancer',
      clusterIP: `10.96.0.${ip}`,
      ports: ports.map((port, i) => ({ name: `p${port}`, port, ...(nodePort === 0 || i > 0 ? {} : { nodePort }) })),
      internalTrafficPolicy: internal,
      externalTrafficPolicy: external,
      ...(sticky ? { sessionAffinity: 'ClientIP' } : {}),
      ...(externalIP === undefined ? {} : { externalIPs: [externalIP] }),
      ...(range === undefined ? {} : { loadBalancerSourceRanges: [range] }),
    },
    ...(vip === undefined ? {} : { status: { loadBalancer: { ingress: [{ ip: vip }] } } }),
  });
}

function sliceObject({ service: name, part, endpoints }: Extract<Step, { kind: 'slice' }>['value']): object {
  return slice({
    name: `${name}-${part}`,
    service: name,
    addressType: 'IPv4',
    ports: [80, 81, 82].map((port) => ({ name: `p${port}`, port: 8000 + port })),
    endpoints: endpoints.map(({ host, node, ready, terminating }) => ({
      addresses: [`10.244.1.${host}`],
      conditions: { ready, terminating, serving: true },
      ...(node === undefined ? {} : { nodeName: node }),
    })),
  });
}

function newRig(): { rig: Rig; kernel: FakeIptables } {
  const kernel = new FakeIptables();
  return { rig: new Rig({ commands: kernel, families: ['IPv4'] }), kernel };
}

/** Order of chains in a table means nothing. */
function normal(saved: string): string[] {
  return saved
    .split('\n')
    .filter((line) => line.startsWith('-A') || line.startsWith(':'))
    .sort();
}

describe('iptables desire', () => {
  it('ends in the same kernel whether built step by step or at once (invariant 12)', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(aStep, { minLength: 1, maxLength: 60 }), async (steps) => {
        const { rig, kernel } = newRig();
        const objects = new Map<string, object>();
        for (const step of steps) {
          if (step.kind === 'sync') assert.equal((await rig.sync()).outcome, 'complete');
          else if (step.kind === 'service' || step.kind === 'slice') {
            const object = step.kind === 'service' ? serviceObject(step.value) : sliceObject(step.value);
            const id =
              step.kind === 'service' ? `service ${step.value.name}` : `slice ${step.value.service}-${step.value.part}`;
            objects.set(id, object);
            rig.put(object);
          } else if (step.kind === 'no service') {
            objects.delete(`service ${step.value}`);
            rig.remove('Service', `default/${step.value}`);
          } else {
            const name = step.value.join('-');
            objects.delete(`slice ${name}`);
            rig.remove('EndpointSlice', `default/${name}`);
          }
        }
        assert.equal((await rig.sync()).outcome, 'complete');
        const fresh = newRig();
        assert.equal((await fresh.rig.put(...objects.values()).sync()).outcome, 'complete');
        assert.deepEqual(normal(kernel.save('IPv4')), normal(fresh.kernel.save('IPv4')));
        // A restart finds nothing to do (invariant 10).
        const again = new Rig({ commands: kernel, families: ['IPv4'] });
        const before = kernel.restores;
        await again.put(...objects.values()).sync();
        assert.equal(kernel.restores, before);
      }),
      { numRuns: 120 },
    );
  });

  it('writes a few chains for one endpoint, however many Services there are (invariant 11)', async () => {
    const { rig, kernel } = newRig();
    for (let i = 0; i < 2000; i++) {
      const ip = `10.${96 + Math.floor(i / 60_000)}.${Math.floor(i / 250)}.${(i % 250) + 1}`;
      rig.put(service({ name: `s${i}`, spec: { clusterIP: ip, ports: [{ port: 80 }] } }));
      rig.put(
        slice({
          name: `s${i}-1`,
          service: `s${i}`,
          endpoints: [{ addresses: [`10.1.${i % 250}.1`], nodeName: 'other' }],
        }),
      );
    }
    await rig.sync();
    const before = kernel.ran.length;
    rig.put(
      slice({
        name: 's7-1',
        service: 's7',
        endpoints: [
          { addresses: ['10.1.7.1'], nodeName: 'other' },
          { addresses: ['10.1.7.2'], nodeName: 'other' },
        ],
      }),
    );
    const report = await rig.sync();
    assert.equal(report.applied, 1);
    const [only, ...others] = kernel.ran.slice(before);
    assert.equal(others.length, 0);
    assert.equal(only?.file, 'iptables-restore');
    assert.match(
      only.lines.join('\n'),
      /^\*nat\n:KUBE-SVC-\w+ - \[0:0\]\n-A KUBE-SVC-[^\n]*10\.1\.7\.1:8080\n-A KUBE-SVC-[^\n]*10\.1\.7\.2:8080\nCOMMIT$/,
    );
  });
});
