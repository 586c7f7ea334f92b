/** Slices of Endpoints, as the test of kube-controller-manager's mirroring has them; rows have their names. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EndpointsObject, EndpointsSubset, SliceObject } from '../../../src/cluster/producers/api-objects.ts';
import { reconcileMirror } from '../../../src/cluster/producers/mirror.ts';
import { SliceStore, serviceView } from '../../helpers/cluster/producers/producing.ts';
import { MIRRORED, type MirrorRow, type MirrorWords } from './mirror-rows.ts';

const [NAMESPACE, NAME, UID] = ['test', 'test-ep', 'd8f2c1f6-5285-4b3c-b3c1-9b89f9e7ed7a'];
const LABELS = {
  'kubernetes.io/service-name': NAME,
  'endpointslice.kubernetes.io/managed-by': 'endpointslicemirroring-controller.k8s.io',
};

function subset(words: MirrorWords): EndpointsSubset {
  const [ready = [], unready = [], ports = []] = words.split('/').map((list) => list.split(',').filter((word) => word));
  const addresses = (list: readonly string[]) => list.map((ip) => ({ ip, hostname: `pod-${ip.at(-1)}` }));
  return {
    addresses: addresses(ready),
    notReadyAddresses: addresses(unready),
    ports: ports.map((text) => {
      const [name = '', port] = text.split(':');
      return { name, port: Number(port), protocol: 'TCP' };
    }),
  };
}

function existingSlice({ content, annotations, isOfOthers }: NonNullable<MirrorRow['existing']>): SliceObject {
  const { addresses = [], ports = [] } = subset(content);
  const owner = { apiVersion: 'v1', kind: 'Endpoints', name: NAME, uid: isOfOthers ? 'of-others' : UID };
  return {
    ...{ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', addressType: 'IPv4', ports },
    metadata: {
      ...{ namespace: NAMESPACE, generateName: `${NAME}-`, labels: LABELS, ownerReferences: [owner] },
      ...(annotations ? { annotations } : {}),
    },
    endpoints: addresses.map(({ ip, hostname = '' }) => ({ addresses: [ip], hostname, conditions: { ready: true } })),
  };
}

/** The address types and ports of the slices to be, each with its addresses: what the row's words say. */
function wanted({ subsets, most = 1000 }: MirrorRow): string[] {
  const slices = new Map<string, string[]>();
  const ports = new Map<string, string[]>();
  for (const { addresses = [], notReadyAddresses = [], ports: own = [] } of subsets.map(subset)) {
    for (const { ip } of [...addresses, ...notReadyAddresses]
      .filter(({ ip: text }) => /^[\d.]+$|:/.test(text))
      .slice(0, most))
      ports.set(ip, [...(ports.get(ip) ?? []), ...own.map(({ name, port }) => `${name}:${port}`)]);
  }
  for (const [ip, list] of ports) {
    const key = `${ip.includes(':') ? 'IPv6' : 'IPv4'} ${list.sort()}`;
    slices.set(key, [...(slices.get(key) ?? []), ip].sort());
  }
  return [...slices].map(([key, list]) => `${key} ${list}`).sort();
}

describe('mirroring', () => {
  for (const [title, row] of Object.entries(MIRRORED)) {
    it(title, () => {
      const { subsets, labels = {}, annotations = {}, existing, most = 1000, isPending } = row;
      const store = new SliceStore();
      if (existing) store.apply({ create: [existingSlice(existing)], update: [], remove: [] }, () => undefined);
      const deleted = isPending ? { deletionTimestamp: '2026-01-01T00:00:00Z' } : {};
      const endpoints: EndpointsObject = {
        ...{ apiVersion: 'v1', kind: 'Endpoints', subsets: subsets.map(subset) },
        metadata: { namespace: NAMESPACE, name: NAME, uid: UID, labels, annotations, ...deleted },
      };
      const service = serviceView({ namespace: NAMESPACE, name: NAME, selector: undefined });
      const { changes } = reconcileMirror({ endpoints, service, existing: store.all, mostPerSubset: most });
      const { create, update, remove } = store.apply(changes, () => undefined);
      assert.deepEqual([store.all.length, create + update + remove], [row.slices, row.writes]);
      if (isPending) return;
      const { 'kubectl.kubernetes.io/last-applied-configuration': _, ...copied } = annotations as Record<
        string,
        string
      >;
      for (const { metadata } of store.all) {
        assert.deepEqual(metadata.annotations ?? {}, copied);
        assert.deepEqual(metadata.labels, { ...labels, ...LABELS });
        assert.equal(metadata.ownerReferences?.[0]?.uid, UID);
      }
      const found = store.all.map(({ addressType, ports, endpoints: list }) => {
        const texts = ports.map(({ name, port }) => `${name}:${port}`).sort();
        return `${addressType} ${texts} ${list.flatMap(({ addresses }) => addresses).sort()}`;
      });
      assert.deepEqual(found.sort(), wanted(row));
    });
  }
});
