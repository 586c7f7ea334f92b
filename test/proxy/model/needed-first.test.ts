/** The Services whose rules are written before all others on a new node. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeService } from '../../../src/cluster/api/decode/service.ts';
import { isNeededFirst } from '../../../src/proxy/model/objects.ts';
import { service } from '../../helpers/cluster/objects.ts';

function isFirst(name: string, namespace: string, spec: object): boolean {
  const event = decodeService(
    service({ name, namespace, spec: { clusterIP: '10.96.0.1', ...spec } }),
    `${namespace}/${name}`,
  );
  return isNeededFirst(event.kind === 'service' ? event.service : undefined);
}

describe('needed first', () => {
  it('is the API server, and DNS by its port, under any name', () => {
    assert.equal(isFirst('kubernetes', 'default', { ports: [{ port: 443 }] }), true);
    assert.equal(isFirst('kube-dns', 'kube-system', { ports: [{ port: 53, protocol: 'UDP' }] }), true);
    const ports = [
      { name: 'metrics', port: 9153 },
      { name: 'dns', port: 53, protocol: 'UDP' },
    ];
    assert.equal(isFirst('resolver', 'infra', { ports }), true);
  });

  it('is no other Service, none with external addresses, and no missing one', () => {
    assert.equal(isFirst('kubernetes', 'other', { ports: [{ port: 443 }] }), false);
    assert.equal(isFirst('web', 'default', { ports: [{ port: 80 }] }), false);
    assert.equal(isFirst('dns', 'infra', { ports: [{ port: 53 }], externalIPs: ['192.0.2.1'] }), false);
    assert.equal(isFirst('dns', 'infra', { type: 'LoadBalancer', ports: [{ port: 53 }] }), false);
    assert.equal(isNeededFirst(undefined), false);
  });
});
