/** Subsets of Endpoints in canonical form, as Kubernetes' test of RepackSubsets has them; rows have their names. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EndpointsAddress, EndpointsObject, EndpointsSubset } from '../../../src/cluster/producers/api-objects.ts';
import { packSubsets } from '../../../src/cluster/producers/endpoints-object.ts';
import { reconcileMirror } from '../../../src/cluster/producers/mirror.ts';
import { serviceView } from '../../helpers/cluster/producers/producing.ts';
import { SUBSETS, type SubsetWords } from './subsets-rows.ts';

function address(words: string): EndpointsAddress {
  const [, ip = '', sign, reference = ''] = /^([^#@]+)([#@])?(.*)$/.exec(words) ?? [];
  if (sign === undefined) return { ip };
  return { ip, targetRef: sign === '@' ? { name: reference } : { uid: reference } };
}

function subset(words: SubsetWords): EndpointsSubset {
  const [addresses = [], notReadyAddresses = [], ports = []] = words
    .split('/')
    .map((list) => list.split(',').filter((word) => word !== ''));
  return {
    ...(addresses.length > 0 ? { addresses: addresses.map(address) } : {}),
    ...(notReadyAddresses.length > 0 ? { notReadyAddresses: notReadyAddresses.map(address) } : {}),
    ...(ports.length > 0 ? { ports: ports.map((port) => ({ port: Number(port) })) } : {}),
  };
}

function* listed(subsets: readonly EndpointsSubset[]) {
  for (const { addresses = [], notReadyAddresses = [], ports = [] } of subsets) {
    for (const one of addresses) yield { address: one, ready: true, ports };
    for (const one of notReadyAddresses) yield { address: one, ready: false, ports };
  }
}

describe('RepackSubsets', () => {
  for (const [title, [given, wanted]] of Object.entries(SUBSETS)) {
    it(title, () => assert.deepEqual(packSubsets(listed(given.map(subset))), wanted.map(subset)));
  }

  it('is what is mirrored: subsets that share an address are one slice', () => {
    const metadata = { name: 'web', namespace: 'default', uid: 'u' };
    const subsets = ['1.2.3.4//111', '1.2.3.4//222'].map(subset);
    const endpoints: EndpointsObject = { apiVersion: 'v1', kind: 'Endpoints', metadata, subsets };
    const service = serviceView({ selector: undefined });
    const { changes } = reconcileMirror({ endpoints, service, existing: [], mostPerSubset: 1000 });
    assert.deepEqual(
      changes.create.map(({ ports }) => ports.map(({ port }) => port)),
      [[111, 222]],
    );
  });
});
