/** Endpoints of Services by reason are counted anew only where something changed. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { ServiceEndpoints } from '../../src/agent/service-metrics.ts';
import { ServiceTraffic } from '../../src/agent/service-traffic.ts';
import { Cache } from '../../src/cluster/cache/cache.ts';
import { ProxyModel } from '../../src/proxy/model/proxy-model.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { eventOf } from '../helpers/proxy/rig.ts';

const HERE = { nodeName: 'node', zone: 'a' };
const LOCAL = { clusterIP: '10.96.0.10', ports: [{ port: 80, nodePort: 30_080 }], type: 'NodePort' };

it('a Service is counted when it or one of its slices changed, and all of them when the zone did', () => {
  const [cache, model, traffic] = [new Cache(), new ProxyModel(HERE), new ServiceTraffic()];
  const endpoints = new ServiceEndpoints();
  const put = (...objects: object[]) => {
    for (const object of objects) cache.take(eventOf(object));
    traffic.update(model.update(cache.takeChanges(), cache, HERE).ports);
  };
  /** The number of Services that were counted. */
  const look = (location = HERE) => {
    const before = endpoints.counted;
    endpoints.prepare(location, (key) => traffic.of(key).length > 0);
    for (const ports of traffic.ports) endpoints.of(ports, cache);
    return endpoints.counted - before;
  };
  for (const name of ['a', 'b', 'c']) {
    put(service({ name, spec: { clusterIP: `10.96.0.${name.charCodeAt(0)}`, ports: [{ port: 80 }] } }));
    put(slice({ name: `${name}-1`, service: name, endpoints: ['10.244.1.1'] }));
  }
  assert.deepEqual([look(), look()], [3, 0]);
  put(slice({ name: 'b-1', service: 'b', endpoints: ['10.244.1.1', { addresses: ['10.244.1.2'], conditions: {} }] }));
  assert.deepEqual([look(), look()], [1, 0]);
  put(service({ name: 'c', spec: { ...LOCAL, externalTrafficPolicy: 'Local' } }));
  assert.deepEqual([look(), look()], [1, 0]);
  const [ofC] = endpoints.of(traffic.of('default/c'), cache);
  assert.deepEqual(
    ofC?.map(({ policy, isUsed, reason, count }) => `${policy} ${isUsed} ${reason} ${count}`),
    ['Cluster true ready 1', 'Local false not-on-this-node 1', 'Local true ready 0'],
  );
  cache.take({ kind: 'service', key: 'default/a', service: undefined, faults: [] });
  traffic.update(model.update(cache.takeChanges(), cache, HERE).ports);
  assert.deepEqual([look(), look({ ...HERE, zone: 'b' })], [0, 2]);
});
