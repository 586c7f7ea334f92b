/** What a sync that was not complete means for each family: who is to blame decides. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sentencesOf, syncOutcomeOf, writtenBy } from '../../src/agent/sync-outcome.ts';
import { FAMILIES } from '../../src/base/address.ts';
import { KernelError } from '../../src/kernel/ipvs-kernel.ts';
import type { ServicePortKey } from '../../src/proxy/model/service-port.ts';
import type { ApplyReport, FailedStep, SkippedStep } from '../../src/proxy/reconcile/step.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { ipvsRig } from '../helpers/proxy/ipvs-rig.ts';
import { Rig } from '../helpers/proxy/rig.ts';

const BOTH = ['IPv4', 'IPv6'] as const;
const LOCK = 'iptables-restore did not get the xtables lock: flock (process 7) holds it';

type Served = () => Iterable<ServicePortKey>;
const served =
  (...keys: ServicePortKey[]): Served =>
  () =>
    keys;

const WEB_AND_GAME = served('default/web/TCP/IPv4', 'default/web/TCP/IPv6', 'default/game:play/SCTP/IPv4');

function step(blame: FailedStep['blame'], fields: Partial<FailedStep> = {}): FailedStep {
  const cause = blame === 'content' ? 'iptables-restore failed\n> 3: -A KUBE-SEP-X -p sctp' : LOCK;
  const { key = 'IPv4 nat KUBE-SEP-X' } = fields;
  const family = FAMILIES.find((each) => key.startsWith(each));
  return { key, family, kind: 'rules', owner: undefined, line: undefined, blame, cause, ...fields };
}

const judge = (of: Served, ...failed: FailedStep[]) => syncOutcomeOf({ outcome: 'partial', failed }, BOTH, of);

describe('the verdict of a sync', () => {
  it('lets no family pay for a Service that the kernel refuses, and names it in one line', () => {
    const { complete, causes, refused } = judge(WEB_AND_GAME, step('content', { owner: 'default/game' }));
    assert.deepEqual([complete, causes.size], [['IPv4', 'IPv6'], 0]);
    assert.deepEqual(sentencesOf(refused), [
      'Service default/game: the kernel refused IPv4 nat KUBE-SEP-X: iptables-restore failed',
    ]);
  });

  it('blames the family for what cannot be written at all, and all of them for what is of none', () => {
    const { complete, causes, refused } = judge(
      WEB_AND_GAME,
      step('content', { owner: 'default/game' }),
      step('environment', { key: 'IPv4 iptables-restore' }),
    );
    assert.deepEqual([complete, [...causes], refused.size], [['IPv6'], [['IPv4', LOCK]], 1]);
    assert.deepEqual(judge(WEB_AND_GAME, step('environment', { key: 'read the kernel' })).complete, []);
    // The Service that a failure was traced to is not to blame for a lock.
    assert.deepEqual(judge(WEB_AND_GAME, step('environment', { owner: 'default/game' })).complete, ['IPv6']);
  });

  it('blames the family when what all share is refused', () => {
    const { complete, causes } = judge(WEB_AND_GAME, step('content', { key: 'IPv6 filter KUBE-FORWARD' }));
    assert.deepEqual([complete, [...causes]], [['IPv4'], [['IPv6', 'iptables-restore failed']]]);
  });

  it('blames the family when every Service that it has is refused: a match that this kernel does not have', () => {
    const keys = ['shop/web/TCP/IPv4', 'shop/web/TCP/IPv6', 'default/game:play/SCTP/IPv4', 'default/dns/UDP/IPv6'];
    const of = served(...keys);
    const refuse = (owner: string, family: string) => step('content', { owner, key: `${family} nat KUBE-SEP-X` });
    const all = [refuse('shop/web', 'IPv4'), refuse('default/game', 'IPv4')];
    const { complete, causes } = judge(of, ...all);
    assert.deepEqual(
      [complete, [...causes]],
      [['IPv6'], [['IPv4', 'the kernel refuses every Service: iptables-restore failed']]],
    );
    const [one] = all;
    assert.deepEqual(judge(of, one ?? assert.fail()).complete, ['IPv4', 'IPv6'], 'the other is served');
    // What is refused in one family says nothing of the other.
    assert.deepEqual(judge(of, ...all, refuse('shop/web', 'IPv6')).complete, ['IPv6']);
    assert.deepEqual(judge(of, ...all, refuse('shop/web', 'IPv6'), refuse('default/dns', 'IPv6')).complete, []);
    assert.deepEqual(judge(served(...keys, 'default/api/TCP/IPv4'), ...all).complete, ['IPv4', 'IPv6']);
  });

  it('lets no family pay for one tenant, though it has no other Service', () => {
    const of = served('default/web/TCP/IPv4', 'game/play/SCTP/IPv4', 'game/play/SCTP/IPv6', 'game/chat/SCTP/IPv6');
    const refused = ['game/play', 'game/chat'].map((owner) => step('content', { owner, key: 'IPv6 nat KUBE-SEP-X' }));
    assert.deepEqual(judge(of, ...refused).complete, ['IPv4', 'IPv6']);
  });

  it('names twenty Services, and how many more there are', () => {
    const many = Array.from({ length: 25 }, (_, i) => step('content', { owner: `default/game-${i}` }));
    const sentences = sentencesOf(judge(WEB_AND_GAME, ...many).refused);
    assert.deepEqual([sentences.length, sentences.at(-1)], [21, 'and 5 more Services; the log names them']);
  });

  for (const legacy of [false, true]) {
    it(`is that of a tool that takes no SCTP, ${legacy ? 'and does not name' : 'which names'} the line`, async () => {
      const iptables = new FakeIptables({ legacy, refuse: (line) => line.includes('-p sctp') });
      const rig = new Rig({ commands: iptables, families: ['IPv4'] });
      const objects = (name: string, protocol: string, clusterIP: string) => [
        service({ name, spec: { clusterIP, ports: [{ port: 80, protocol }] } }),
        slice({
          ...{ name: `${name}-1`, service: name, addressType: 'IPv4' },
          ports: [{ name: '', port: 80, protocol }],
          endpoints: [{ addresses: ['10.244.0.2'] }],
        }),
      ];
      rig.put(...objects('web', 'TCP', '10.96.0.10'), ...objects('game', 'SCTP', '10.96.0.11'));
      const report = await rig.sync();
      assert.equal(report.outcome, 'partial');
      const of = served('default/web/TCP/IPv4', 'default/game/SCTP/IPv4');
      const { complete, refused } = syncOutcomeOf(report, ['IPv4'], of);
      assert.deepEqual([complete, [...refused.keys()]], [['IPv4'], ['default/game']]);
      assert.match(
        sentencesOf(refused)[0] ?? '',
        /^Service default\/game: the kernel refused IPv4 \S.*: iptables-restore/,
      );
    });
  }
});

describe('the Services that a sync certainly wrote', () => {
  const SERVICES = ['default/web', 'default/game'] as const;

  /** `SERVICE FAMILY` of those that may count more endpoints. */
  function written(report: Partial<ApplyReport>): string[] {
    const isWritten = writtenBy({ outcome: 'partial', failed: [], skipped: [], ...report }, BOTH);
    return SERVICES.flatMap((name) =>
      BOTH.filter((family) => isWritten(name, family)).map((family) => `${name} ${family}`),
    );
  }

  const skip = (fields: Partial<SkippedStep>): SkippedStep => {
    return { key: 'IPv4 x', family: 'IPv4', owner: undefined, blockedBy: 'IPv4 y', ...fields };
  };
  const ALL = ['default/web IPv4', 'default/web IPv6', 'default/game IPv4', 'default/game IPv6'];
  const GAME = ALL.slice(2);
  const ONLY_IPV6 = ['default/web IPv6', 'default/game IPv6'];

  it('are all after a complete sync, and none where nobody says what is missing', () => {
    assert.deepEqual(written({ outcome: 'complete' }), ALL);
    assert.deepEqual(written({}), []);
    assert.deepEqual(written({ outcome: 'complete', failed: [step('environment', { key: 'sync' })] }), []);
  });

  it('are those without a step that failed or was not tried, for whatever reason', () => {
    for (const blame of ['content', 'environment'] as const)
      assert.deepEqual(written({ failed: [step(blame, { owner: 'default/web' })] }), GAME, blame);
    const failed = [step('environment', { owner: 'default/other' })];
    assert.deepEqual(written({ failed }), ALL);
    assert.deepEqual(written({ failed, skipped: [skip({ owner: 'default/web' })] }), GAME);
  });

  it('are none of a family in which something that is shared was not written', () => {
    assert.deepEqual(written({ failed: [step('environment')] }), ONLY_IPV6);
    const failed = [step('environment', { owner: 'default/other' })];
    assert.deepEqual(written({ failed, skipped: [skip({})] }), ONLY_IPV6);
    assert.deepEqual(written({ failed, skipped: [skip({ family: undefined })] }), []);
  });

  it('of IPVS mode are those beside the one whose destination could not be written for a moment', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    const objects = (endpoint: number) =>
      ['web', 'game'].flatMap((name, i) => [
        service({ name, spec: { clusterIP: `10.96.0.1${i}`, ports: [{ port: 80 }] } }),
        slice({ name: `${name}-1`, service: name, endpoints: ['10.244.1.1', `10.244.${i + 1}.${endpoint}`] }),
      ]);
    made.rig.become({ objects: objects(11) });
    assert.equal((await made.rig.sync()).outcome, 'complete');
    made.kernel.options = {
      ...made.kernel.options,
      intercept: (write) =>
        write.kind === 'add-destination' && write.server.address === '10.96.0.10'
          ? new KernelError('environment', 'ENOMEM: not enough memory')
          : undefined,
    };
    made.rig.become({ objects: objects(12) });
    const report = await made.rig.sync();
    assert.equal(report.outcome, 'partial');
    const isWritten = writtenBy(report, ['IPv4']);
    const text = JSON.stringify([report.failed, report.skipped]);
    assert.deepEqual([isWritten('default/web', 'IPv4'), isWritten('default/game', 'IPv4')], [false, true], text);
  });
});
