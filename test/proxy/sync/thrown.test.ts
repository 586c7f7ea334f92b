/** Errors thrown in a sync make it fail, and no pending write is lost; and the log lines of failures. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SyncLog } from '../../../src/agent/sync-log.ts';
import type { Family } from '../../../src/base/address.ts';
import type { Mode } from '../../../src/proxy/modes/mode.ts';
import type { FailedStep } from '../../../src/proxy/reconcile/step.ts';
import type { Log } from '../../../src/telemetry/log.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { nftRig } from '../../helpers/proxy/nft-rig.ts';
import { Rig } from '../../helpers/proxy/rig.ts';

const WEB = [
  service({ name: 'web', spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }] } }),
  slice({ name: 'web-1', service: 'web', endpoints: ['10.244.1.1'] }),
];
const MORE = slice({ name: 'web-2', service: 'web', endpoints: ['10.244.1.2'] });

/** Every stage of a mode that a sync reaches. */
const STAGES = ['desire', 'settle', 'observe', 'refresh', 'plan', 'apply'] as const;

/** Makes a stage of a mode throw as long as it returns an error. */
function spoil(mode: Mode, stage: (typeof STAGES)[number], error: () => Error | undefined): void {
  if (stage === 'apply') {
    const plan = mode.plan.bind(mode);
    mode.plan = (setAside) => throwing(plan(setAside), stage, error);
  } else throwing(mode, stage, error);
}

function throwing<T extends object>(of: T, method: keyof T & string, error: () => Error | undefined): T {
  const own = (of[method] as (...args: unknown[]) => unknown).bind(of);
  return Object.assign(of, {
    [method]: (...args: unknown[]) => {
      const thrown = error();
      if (thrown !== undefined) throw thrown;
      return own(...args);
    },
  });
}

describe('an error thrown in a sync', () => {
  for (const stage of STAGES) {
    for (const isFirst of [true, false]) {
      it(`by ${stage}, ${isFirst ? 'in the first one' : 'later'}, is reported, and the next sync writes the touched Services`, async () => {
        const { rig, kernel } = nftRig({ families: ['IPv4'] });
        let error: Error | undefined;
        spoil(rig.mode, stage, () => error);
        rig.put(...WEB);
        if (!isFirst) assert.equal((await rig.sync()).outcome, 'complete');
        error = new TypeError("Cannot read properties of undefined (reading 'x')");
        rig.put(MORE).loop.distrust();
        const report = await rig.sync();
        if (stage !== 'refresh') {
          assert.equal(report.outcome, 'failed');
          const [failed] = report.failed;
          assert.equal(
            `${failed?.key}: ${failed?.cause}`,
            "sync: a bug in slicewire, please report it: TypeError: Cannot read properties of undefined (reading 'x')",
          );
        }
        error = undefined;
        assert.equal((await rig.sync()).outcome, 'complete');
        assert.equal(kernel.tables.get('IPv4')?.sets.get('backends')?.elements.size, 2);
      });
    }
  }

  it('while the first of many Services are rendered is reported, and the next sync writes all of them', async () => {
    const { rig, kernel } = nftRig({ families: ['IPv4'] });
    let error: Error | undefined = new TypeError('once');
    spoil(rig.mode, 'desire', () => error);
    const count = 300;
    for (let i = 1; i <= count; i++) {
      const clusterIP = `10.96.${i >> 8}.${i & 255}`;
      rig.put(service({ name: `web-${i}`, spec: { clusterIP, ports: [{ port: 80 }] } }));
      rig.put(slice({ name: `web-${i}-1`, service: `web-${i}`, endpoints: ['10.244.1.1'] }));
    }
    assert.equal((await rig.sync()).outcome, 'failed');
    error = undefined;
    assert.equal((await rig.sync()).outcome, 'complete');
    assert.equal(kernel.tables.get('IPv4')?.sets.get('services')?.elements.size, count);
  });

  it('by an abort is rethrown, not reported', async () => {
    const { rig } = nftRig();
    const stop = new AbortController();
    spoil(rig.mode, 'apply', () => {
      stop.abort(new Error('stopping'));
      return new Error('stopping');
    });
    await assert.rejects(rig.put(...WEB).loop.sync(stop.signal), /stopping/);
  });

  it('by unreadable settings makes only their family unread', async () => {
    let isBroken = true;
    const read = () => (isBroken ? Promise.reject(new Error('EACCES: permission denied')) : Promise.resolve('0'));
    const sysctls = { read, write: () => Promise.resolve() };
    const settings = (family: Family) => ({ localhostNodePorts: family === 'IPv4' });
    const rig = new Rig({ commands: new FakeIptables(), sysctls, settings });
    const { outcome, failed } = await rig.put(...WEB).sync();
    assert.deepEqual(
      [outcome, failed.map(({ key, cause }) => `${key}: ${cause}`)],
      ['partial', ['IPv4 read: EACCES: permission denied']],
    );
    isBroken = false;
    assert.equal((await rig.sync()).outcome, 'complete');
  });
});

describe('log lines of failed steps', () => {
  const nothing = {
    duration: 1,
    drift: [],
    reading: 0,
    desiring: 0,
    writing: 0,
    skipped: [],
    applied: 0,
  };
  const work = { services: 0, rendered: 0, compared: 0, steps: 0 };

  function lines(failed: readonly FailedStep[]): string[] {
    const said: string[] = [];
    const log = { error: (_: object, text: string) => said.push(text) } as unknown as Log;
    const report = { ...nothing, work, outcome: 'failed', failed } as const;
    new SyncLog(log, new FakeClock()).synced(report, { isFirst: false, faults: {} });
    return said.slice(0, -1);
  }

  it('are one for each cause, with the number of steps and the Services', () => {
    const refused = (n: number): FailedStep => ({
      key: `IPv4 elements of default/web-${n}`,
      family: 'IPv4',
      kind: 'rules',
      owner: `default/web-${n}`,
      line: `services 10.96.0.${n} . tcp . 80 : goto x`,
      blame: 'content',
      cause: `EINVAL: invalid argument: services 10.96.0.${n} . tcp . 80 : goto x`,
    });
    const lost = {
      key: 'IPv4 nftables',
      family: 'IPv4',
      kind: 'rules',
      owner: undefined,
      line: undefined,
      blame: 'environment',
      cause: 'ENOENT',
    } as const;
    const many = Array.from({ length: 1595 }, (_, i) => refused(i + 1));
    assert.deepEqual(lines([...many, lost, lost, { ...lost, cause: 'ENOMEM: out of memory' }]), [
      'Service default/web-1 is set aside: IPv4 elements of default/web-1: EINVAL: invalid argument: services 10.96.0.1 . tcp . 80 : goto x ' +
        '(and 1594 more steps failed for the same cause, of Services default/web-2, default/web-3, default/web-4, default/web-5, default/web-6 and 1589 more)',
      'IPv4 nftables: ENOENT (and 1 more steps failed for the same cause)',
      'IPv4 nftables: ENOMEM: out of memory',
    ]);
  });
});
