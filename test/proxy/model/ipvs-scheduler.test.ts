/** Schedulers of IPVS as people write them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  SCHEDULERS,
  schedulerOf,
  schedulerProblem,
  serviceSchedulerProblem,
} from '../../../src/proxy/model/ipvs-scheduler.ts';

describe('a scheduler', () => {
  it('has the bits of its flags, and kube-proxy’s where it names none', () => {
    const bits = ['rr', 'mh', 'mh,mh-fallback', 'mh,mh-port,mh-fallback', 'sh', 'sh,sh-port'].map((text) =>
      schedulerOf(text),
    );
    assert.deepEqual(bits, [
      { name: 'rr', flags: 0 },
      { name: 'mh', flags: 0x10 },
      { name: 'mh', flags: 0x8 },
      { name: 'mh', flags: 0x18 },
      { name: 'sh', flags: 0 },
      { name: 'sh', flags: 0x10 },
    ]);
  });

  it('has no flag of another one', () => {
    assert.equal(schedulerProblem('sh,sh-port,sh-fallback'), undefined);
    assert.match(schedulerProblem('sh,mh-port') ?? '', /has the flag "mh-port"; sh takes sh-fallback and sh-port/);
    assert.match(schedulerProblem('rr,sh-port') ?? '', /has a flag, and rr takes none/);
    assert.match(schedulerProblem('') ?? '', /must begin with the name of a scheduler/);
    assert.match(schedulerProblem('rr;reboot') ?? '', /must begin with the name of a scheduler/);
  });

  it('of a node may be of a module of its own, and that of a Service is one of the kernel', () => {
    assert.equal(schedulerProblem('mine'), undefined);
    assert.match(serviceSchedulerProblem('mine') ?? '', /must begin with a scheduler of IPVS: rr, wrr/);
    for (const name of SCHEDULERS) assert.equal(serviceSchedulerProblem(name), undefined);
  });
});
