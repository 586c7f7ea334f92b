/** Pods in protobuf say the same as their JSON. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodePod, PODS } from '../../../src/cluster/api/decode/producing.ts';
import { ProtobufUnreadable } from '../../../src/cluster/api/protobuf/wire.ts';
import { podOf } from '../../bench/cluster.ts';
import { listBytes } from '../../helpers/cluster/api/api-protobuf.ts';
import type { ApiObject } from '../../helpers/cluster/api/api-store.ts';

const HEAD = { kind: 'PodList', apiVersion: 'v1', metadata: { resourceVersion: '7' } };

function pod(more: object): ApiObject {
  return { kind: 'Pod', metadata: { name: 'web-1', namespace: 'shop', uid: 'u', resourceVersion: '5' }, ...more };
}

/** What follows from the same Pods in both. */
function same(pods: readonly ApiObject[]): void {
  const items = [...PODS.list(Buffer.concat(listBytes(HEAD, pods))).items];
  assert.equal(items.length, pods.length);
  for (const [i, object] of pods.entries()) {
    const key = `${object.metadata.namespace}/${object.metadata.name}`;
    const decoded = decodePod(items[i], key, { isHandWritten: false });
    assert.notEqual(decoded.value, undefined);
    assert.deepEqual(decoded, decodePod(object, key, { isHandWritten: false }));
  }
}

const FULL = pod({
  metadata: {
    name: 'web-1',
    namespace: 'shop',
    uid: '4b1c20f0-e7e3-4ae4-98b3-8310362d14d8',
    resourceVersion: '5',
    creationTimestamp: '2026-11-21T00:27:50Z',
    deletionTimestamp: '2026-11-21T01:00:00Z',
    deletionGracePeriodSeconds: 30,
    labels: { app: 'web', 'app.kubernetes.io/name': 'Zoë', empty: '' },
    annotations: { note: 'x' },
  },
  spec: {
    nodeName: 'node-a',
    hostname: 'web-1',
    subdomain: 'web',
    containers: [
      { name: 'main', ports: [{ name: 'http', containerPort: 8080, protocol: 'TCP' }, { containerPort: 53 }] },
      { name: 'other', ports: [{ name: 'dns', containerPort: 53, protocol: 'UDP' }] },
    ],
    initContainers: [
      { name: 'side', restartPolicy: 'Always', ports: [{ name: 'metrics', containerPort: 9090, protocol: 'TCP' }] },
      { name: 'first', ports: [{ name: 'unused', containerPort: 1, protocol: 'TCP' }] },
    ],
  },
  status: {
    phase: 'Running',
    podIP: '10.244.1.11',
    podIPs: [{ ip: '10.244.1.11' }, { ip: 'fd00:244::b' }],
    conditions: [
      { type: 'PodScheduled', status: 'True', lastTransitionTime: '2026-11-21T00:28:00Z' },
      { type: 'Ready', status: 'True', lastTransitionTime: '2026-11-21T00:29:00Z' },
    ],
  },
});

describe('Pods in protobuf', () => {
  it('have every field that is used', () => {
    same([
      FULL,
      pod({ spec: {}, status: {} }),
      pod({ spec: { nodeName: 'n' }, status: { phase: 'Pending' } }),
      pod({ spec: {}, status: { phase: 'Succeeded', podIP: '10.244.1.12' } }),
      pod({ spec: {}, status: { conditions: [{ type: 'Ready', status: 'False' }], podIPs: [{ ip: '10.244.1.13' }] } }),
    ]);
  });

  it('say what those of a made-up cluster say', () => {
    const shape = { services: 3, endpoints: 5 };
    same(Array.from({ length: 15 }, (_, i) => podOf(shape, i % 3, Math.floor(i / 3), i % 2) as ApiObject));
  });

  it('report the same faults', () => {
    same([
      pod({ spec: { containers: [{ name: 'a', ports: [{ name: 'x', containerPort: 70_000 }] }] }, status: {} }),
      pod({ spec: {}, status: { podIPs: [{ ip: 'nowhere' }] } }),
    ]);
  });

  it('are refused where they break off', () => {
    const whole = Buffer.concat(listBytes(HEAD, [FULL]));
    const end = whole.length - Buffer.from('\x1a\0\x22\0').length;
    assert.ok(end > 100, `${end} bytes`);
    for (let length = 0; length < end; length += 3)
      assert.throws(() => [...PODS.list(whole.subarray(0, length)).items], ProtobufUnreadable, String(length));
  });
});
