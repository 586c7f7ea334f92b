import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ServiceKey } from '../../src/proxy/model/objects.ts';
import { LATE_MS, Programming } from '../../src/shadow/programming.ts';

const [WEB, DNS] = ['shop/web', 'kube-system/dns'] as ServiceKey[] as [ServiceKey, ServiceKey];
const all = () => true;

function measured(): { readonly programming: Programming; readonly latencies: number[] } {
  const latencies: number[] = [];
  return { programming: new Programming((latency) => latencies.push(latency)), latencies };
}

describe('the time until another proxy has written a change', () => {
  it('is that of the first commit after which the rules do what the objects ask for', () => {
    const { programming, latencies } = measured();
    programming.changed(WEB, 100, true);
    programming.committed(90, all);
    assert.deepEqual([...programming.candidates()], [], 'the commit came before the change');
    programming.committed(150, all);
    assert.deepEqual([...programming.candidates()], [WEB]);
    programming.notWritten(WEB);
    programming.committed(400, all);
    programming.written(WEB);
    assert.deepEqual([latencies, programming.unmeasured], [[300], 0]);
    assert.deepEqual([programming.waiting().services, programming.waiting().oldest], [0, undefined]);
    assert.equal(programming.latencies.summary(1000)?.changes, 1);
  });

  it('is not measured where one of several commits had the change, and where none is known', () => {
    const { programming, latencies } = measured();
    programming.changed(WEB, 100, true);
    programming.committed(150, all);
    programming.committed(1150, all);
    programming.committed(1160, all);
    assert.deepEqual([...programming.candidates()], [WEB]);
    programming.written(WEB);
    programming.changed(DNS, 200, true);
    programming.written(DNS);
    assert.deepEqual([latencies, programming.unmeasured, programming.waiting().services], [[], 2, 0]);
  });

  it('is that of the last commit of one sync, which has one for each family', () => {
    const { programming, latencies } = measured();
    programming.changed(WEB, 100, true);
    programming.committed(150, all);
    programming.committed(170, all);
    programming.written(WEB);
    assert.deepEqual(latencies, [70]);
  });

  it('is that of each Service, by the commits that may have its change', () => {
    const { programming, latencies } = measured();
    programming.changed(WEB, 100, true);
    programming.changed(DNS, 120, true);
    assert.equal(programming.waiting().oldest, 100);
    programming.committed(200, (service) => service === DNS);
    for (const service of [...programming.candidates()]) programming.written(service);
    assert.deepEqual([latencies, [...programming.measured()], programming.receivedAt(WEB)], [[80], [WEB], 100]);
  });

  it('is that of the last change where a Service changes again before', () => {
    const { programming, latencies } = measured();
    programming.changed(WEB, 100, true);
    programming.committed(150, all);
    programming.changed(WEB, 200, true);
    assert.deepEqual([[...programming.candidates()], programming.unmeasured], [[], 1]);
    programming.committed(260, all);
    programming.written(WEB);
    assert.deepEqual(latencies, [60]);
  });
});

describe('a change that is not measured', () => {
  it('is awaited all the same, until it is late', () => {
    const { programming } = measured();
    programming.changed(WEB, 100, false);
    programming.changed(DNS, 200, true);
    programming.leaveOut(DNS);
    programming.leaveOut(DNS);
    assert.deepEqual([[...programming.measured()], programming.unmeasured], [[], 2]);
    programming.committed(300, all);
    assert.deepEqual([...programming.candidates()], []);
    assert.ok(programming.isAwaited(WEB, 100 + LATE_MS - 1) && !programming.isAwaited(WEB, 100 + LATE_MS));
    assert.deepEqual(
      [...programming.awaited()],
      [
        [WEB, 100],
        [DNS, 200],
      ],
    );
    assert.deepEqual(programming.waiting(), { services: 0, oldest: undefined }, 'the commit may have them');
    programming.notWritten(DNS);
    assert.deepEqual(programming.waiting(), { services: 1, oldest: 200 });
    programming.forget(WEB);
    assert.deepEqual([[...programming.awaited()], programming.unmeasured], [[[DNS, 200]], 2]);
  });

  it('is late since the first change that no commit can have', () => {
    const { programming } = measured();
    programming.changed(WEB, 100, true);
    programming.changed(WEB, 20_000, true);
    assert.deepEqual([programming.since(WEB), programming.receivedAt(WEB)], [100, 20_000]);
    assert.ok(!programming.isAwaited(WEB, 100 + LATE_MS));
    programming.committed(40_000, all);
    programming.changed(WEB, 50_000, true);
    assert.deepEqual([programming.since(WEB), programming.waiting().oldest], [50_000, 50_000]);
  });

  it('is not awaited by the parts that come after these', () => {
    const { programming } = measured();
    programming.changed(WEB, 100, true);
    programming.changed(DNS, 200, false);
    programming.forgetAll();
    programming.committed(300, all);
    assert.deepEqual(
      [[...programming.candidates()], programming.waiting().services, programming.unmeasured],
      [[], 0, 2],
    );
  });
});
