/** What an agent with --service-metrics serves beside its other metrics, with a sample of each metric and each of its labels. */
import { ServiceMetrics } from '../../../src/agent/service-metrics.ts';
import { createMutex } from '../../../src/base/mutex.ts';
import { Cache } from '../../../src/cluster/cache/cache.ts';
import { ProxyModel } from '../../../src/proxy/model/proxy-model.ts';
import type { ConnectionCount } from '../../../src/proxy/modes/mode.ts';
import { FakeClock } from '../base/fake-clock.ts';
import { service, slice } from '../cluster/objects.ts';
import { eventOf, NEVER } from '../proxy/rig.ts';

export async function serviceText(): Promise<string> {
  const [cache, model] = [new Cache(), new ProxyModel({ nodeName: 'node', zone: '' })];
  const metrics = new ServiceMetrics({ log: { warn: () => undefined }, signal: NEVER, clock: new FakeClock() });
  const counted: ConnectionCount = {
    ...{ service: 'default/web', family: 'IPv4', address: '10.96.0.10' as ConnectionCount['address'] },
    ...{ protocol: 'TCP', port: 80, count: 7, bytes: { in: 70, out: 700 } },
  };
  const mode = { name: 'ipvs', isObserved: true, metrics: { connectionCounts: async () => [counted] } } as const;
  metrics.use({ mode, kernelLock: { between: createMutex() }, feed: { cache }, model }, { serviceMetrics: true });
  const ports = [{ name: 'http', port: 80 }];
  cache.take(eventOf(service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports } })));
  const endpoints = ['10.244.1.1', { addresses: ['10.244.1.2'], conditions: { ready: false } }];
  cache.take(eventOf(slice({ name: 'web-1', service: 'web', ports, endpoints })));
  metrics.update(model.update(cache.takeChanges(), cache, model.location).ports);
  return await metrics.text();
}
