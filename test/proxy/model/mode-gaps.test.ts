/** A Service asks for more than a mode can do: the mode does the rest, and one fault tells of each gap. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeService } from '../../../src/cluster/api/decode/service.ts';
import { MODES, type ModeName } from '../../../src/proxy/model/modes.ts';
import { faultText } from '../../../src/proxy/model/objects.ts';
import { ProxyModel } from '../../../src/proxy/model/proxy-model.ts';
import { service } from '../../helpers/cluster/objects.ts';

const KEY = 'default/web';

/** The first ServicePort and the faults of a Service with a stable choice and all limits. */
function served(mode: ModeName) {
  const annotations = {
    'slicewire.dev/balance': 'hash',
    'slicewire.dev/new-connections': '100/s burst 200',
    'slicewire.dev/max-connections-per-client': '20',
    'slicewire.dev/max-connections': '1000',
  };
  const object = service({ name: 'web', annotations, spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } });
  const { service: found } = decodeService(object, KEY);
  const model = new ProxyModel({ nodeName: 'node', zone: '' }, { mode: MODES[mode] });
  const objects = { service: () => found, slicesOf: () => [] };
  const { ports, faults } = model.update([KEY], objects, { nodeName: 'node', zone: '' });
  const [port] = ports.values();
  return { port, faults: (faults.get(KEY) ?? []).map(faultText) };
}

const lacks = (name: string, value: string) =>
  `Service default/web: metadata.annotations["slicewire.dev/${name}"]: ${value}: not used: this mode cannot keep this limit; nftables mode can (no effect here)`;
const NO_HASH =
  'Service default/web: metadata.annotations["slicewire.dev/balance"]: hash: not used: this mode has no choice by the client, and chooses endpoints at random (no effect here)';

describe('what a mode cannot do', () => {
  it('is nothing in nftables mode', () => {
    const { port, faults } = served('nftables');
    assert.deepEqual(faults, []);
    assert.equal(port?.hashes, 'address');
    assert.deepEqual(
      port?.limits?.map(({ name }) => name),
      ['new-connections', 'max-connections-per-client', 'max-connections'],
    );
  });

  it('is a stable choice, and limits of open connections, in iptables mode', () => {
    const { port, faults } = served('iptables');
    assert.deepEqual(faults, [NO_HASH, lacks('max-connections-per-client', '20'), lacks('max-connections', '1000')]);
    assert.deepEqual([port?.hashes, port?.limits], [undefined, [{ name: 'new-connections', most: 100, burst: 200 }]]);
  });

  it('is every limit in IPVS mode', () => {
    const { port, faults } = served('ipvs');
    assert.deepEqual(faults, [
      lacks('new-connections', '100/s burst 200'),
      lacks('max-connections-per-client', '20'),
      lacks('max-connections', '1000'),
    ]);
    assert.deepEqual([port?.hashes, port?.limits], ['address', undefined]);
  });
});
