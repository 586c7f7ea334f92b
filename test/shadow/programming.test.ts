import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ServiceKey } from '../../src/proxy/model/objects.ts';
import { MAX_FOLLOWED, Programming } from '../../src/shadow/programming.ts';

const [WEB, DNS] = ['shop/web', 'kube-system/dns'] as ServiceKey[] as [ServiceKey, ServiceKey];
const all = () => true;

function measured(): { readonly programming: Programming; readonly latencies: number[] } {
  const latencies: number[] = [];
  return { programming: new Programming((latency) => latencies.push(latency)), latencies };
}

describe('the time until another proxy has written a change', () => {
  it('is that of the first commit after which the rules do what the objects ask for', () => {
    const { programming, latencies } = measured();
    programming.changed(WEB, 100);
    programming.committed(90, all);
    assert.deepEqual([...programming.candidates()], [], 'the commit came before the change');
    programming.committed(150, all);
    assert.deepEqual([...programming.candidates()], [WEB]);
    programming.notWritten(WEB);
    programming.committed(400, all);
    programming.committed(900, all);
    programming.written(WEB);
    assert.deepEqual(latencies, [300]);
    assert.deepEqual([programming.services.size, programming.oldest], [0, undefined]);
    assert.equal(programming.latencies.summary(1000)?.changes, 1);
  });

  it('is not measured without a commit', () => {
    const { programming, latencies } = measured();
    programming.changed(WEB, 100);
    programming.written(WEB);
    assert.deepEqual([latencies, programming.services.size], [[], 1]);
  });

  it('is that of each Service, by the commits that may have its change', () => {
    const { programming, latencies } = measured();
    programming.changed(WEB, 100);
    programming.changed(DNS, 120);
    assert.equal(programming.oldest, 100);
    programming.committed(200, (service) => service === DNS);
    for (const service of [...programming.candidates()]) programming.written(service);
    assert.deepEqual([latencies, [...programming.services], programming.receivedAt(WEB)], [[80], [WEB], 100]);
    programming.giveUp(WEB);
    assert.equal(programming.services.size, 0);
  });

  it('is that of the last change where a Service changes again before', () => {
    const { programming, latencies } = measured();
    programming.changed(WEB, 100);
    programming.committed(150, all);
    programming.changed(WEB, 200);
    assert.deepEqual([[...programming.candidates()], programming.unmeasured], [[], 1]);
    programming.committed(260, all);
    programming.written(WEB);
    assert.deepEqual(latencies, [60]);
  });

  it('follows a bounded number of Services', () => {
    const { programming } = measured();
    for (let i = 0; i <= MAX_FOLLOWED; i++) programming.changed(`shop/web-${i}` as ServiceKey, i);
    assert.deepEqual([programming.services.size, programming.unmeasured], [MAX_FOLLOWED, 1]);
    programming.changed('shop/web-0' as ServiceKey, 9);
    assert.equal(programming.receivedAt('shop/web-0' as ServiceKey), 9);
  });
});
