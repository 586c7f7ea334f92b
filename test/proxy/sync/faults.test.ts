/** Failures and their limits: over iptables in memory, with the faults of the real one. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Command, CommandResult } from '../../../src/kernel/commands.ts';
import { driftText } from '../../../src/proxy/model/drift.ts';
import { Flows } from '../../../src/proxy/model/flows.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../helpers/proxy/rig.ts';

const LOCKED: CommandResult = {
  exitCode: 4,
  stdout: '',
  stderr: 'Another app is currently holding the xtables lock. Perhaps you want to use the -w option?',
};

function webs(rig: Rig, count: number): Rig {
  for (let i = 1; i <= count; i++) {
    rig.put(
      service({ name: `web-${i}`, spec: { clusterIP: `10.96.0.${i}`, ports: [{ port: 80 }] } }),
      slice({ name: `web-${i}-1`, service: `web-${i}`, endpoints: [`10.244.1.${i}`] }),
    );
  }
  return rig;
}

const onlyIPv4 = (kernel: FakeIptables) => new Rig({ commands: kernel, families: ['IPv4'] });

describe('faults', () => {
  for (const legacy of [false, true]) {
    it(`sets a refused Service aside and programs the rest, ${legacy ? 'legacy' : 'nft'} (invariant 6)`, async () => {
      const kernel = new FakeIptables({ legacy, refuse: (line) => line.includes('--to-destination 10.244.1.5:') });
      const rig = webs(onlyIPv4(kernel), 40);
      const report = await rig.sync();
      assert.equal(report.outcome, 'partial');
      assert.deepEqual(
        report.failed.map((step) => step.owner),
        ['default/web-5'],
      );
      const saved = kernel.save('IPv4');
      for (let i = 1; i <= 40; i++)
        assert.equal(saved.includes(`--to-destination 10.244.1.${i}:8080`), i !== 5, `web-${i}`);
      assert.ok(!saved.includes('default/web-5 '));
      // The reason is gone: the next sync writes the Service.
      kernel.options = { legacy };
      assert.equal((await rig.sync()).outcome, 'complete');
      assert.ok(kernel.save('IPv4').includes('--to-destination 10.244.1.5:8080'));
    });
  }

  it('reports the refused line with the lines around it', async () => {
    const kernel = new FakeIptables({ refuse: (line) => line.includes('--to-destination 10.244.1.2:') });
    const { failed } = await webs(onlyIPv4(kernel), 3).sync();
    assert.match(
      failed[0]?.cause ?? '',
      /RULE_APPEND failed[\s\S]*\n {2}\d+: .*\n> \d+: -A KUBE-SVC-\S+ .*10\.244\.1\.2:8080\n {2}\d+: /,
    );
  });

  it('keeps what works of a Service whose update is refused (invariant 3)', async () => {
    const kernel = new FakeIptables();
    const rig = webs(onlyIPv4(kernel), 3);
    await rig.sync();
    kernel.options = { refuse: (line) => line.includes('10.244.9.9') };
    rig.put(slice({ name: 'web-2-1', service: 'web-2', endpoints: ['10.244.9.9'] }));
    rig.put(slice({ name: 'web-3-1', service: 'web-3', endpoints: ['10.244.3.3'] }));
    const report = await rig.sync();
    assert.equal(report.outcome, 'partial');
    const saved = kernel.save('IPv4');
    assert.ok(saved.includes('--to-destination 10.244.1.2:8080'), 'the old endpoint stays');
    assert.match(saved, /default\/web-2 cluster IP/);
    assert.ok(saved.includes('--to-destination 10.244.3.3:8080'), 'the other Service is updated');
  });

  it('writes nothing while the lock is held, reports it, and goes on afterwards', async () => {
    const kernel = new FakeIptables();
    const rig = webs(onlyIPv4(kernel), 2);
    await rig.sync();
    const before = kernel.save('IPv4');
    kernel.options = { intercept: ({ file }) => (file.endsWith('-restore') ? LOCKED : undefined) };
    rig.put(slice({ name: 'web-1-1', service: 'web-1', endpoints: ['10.244.7.7'] }));
    const report = await rig.sync();
    assert.equal(report.outcome, 'failed');
    assert.match(report.failed[0]?.cause ?? '', /xtables lock/);
    assert.equal(report.failed[0]?.owner, undefined);
    assert.equal(kernel.save('IPv4'), before);
    kernel.options = {};
    assert.equal((await rig.sync()).outcome, 'complete');
    assert.ok(kernel.save('IPv4').includes('10.244.7.7:8080'));
  });

  it('treats a failed read as unknown, and removes nothing because of it (invariant 2)', async () => {
    for (const stdout of ['', '*nat\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n', 'nonsense\n']) {
      const kernel = new FakeIptables();
      await webs(onlyIPv4(kernel), 2).sync();
      const before = kernel.save('IPv4');
      const exitCode = stdout === '' ? 1 : 0;
      kernel.options = {
        intercept: ({ file }) => (file.endsWith('-save') ? { exitCode, stdout, stderr: 'broken' } : undefined),
      };
      const report = await webs(onlyIPv4(kernel), 1).sync();
      assert.equal(report.outcome, 'failed');
      assert.equal(kernel.save('IPv4'), before);
    }
  });

  it('does not write before the lists of all sources are complete (invariant 1)', async () => {
    const { Cache } = await import('../../../src/cluster/cache/cache.ts');
    const { SyncLoop } = await import('../../../src/proxy/sync/loop.ts');
    const { ProxyModel } = await import('../../../src/proxy/model/proxy-model.ts');
    const { realClock } = await import('../../../src/base/clock.ts');
    const kernel = new FakeIptables();
    const cache = new Cache();
    const { mode } = onlyIPv4(kernel);
    const model = new ProxyModel({ nodeName: 'node', zone: '' });
    const loop = new SyncLoop({
      flows: new Flows(() => undefined),
      cache,
      model,
      mode,
      clock: realClock,
      nodeName: 'node',
      retry: 0,
      onFault: () => undefined,
      onUnread: () => undefined,
    });
    for (const kind of ['services', 'slices'] as const) cache.take({ kind: 'synced', of: kind });
    await assert.rejects(loop.sync(new AbortController().signal), /not synced yet: nodes/);
    assert.equal(kernel.ran.length, 0);
  });

  it('is a partial failure when one family works and the other does not', async () => {
    const kernel = new FakeIptables({
      intercept: ({ file }: Command) => (file === 'ip6tables-restore' ? LOCKED : undefined),
    });
    const report = await webs(new Rig({ commands: kernel }), 1).sync();
    assert.equal(report.outcome, 'partial');
    assert.ok(kernel.save('IPv4').includes('10.244.1.1:8080'));
  });

  it('does not touch chains of other programs', async () => {
    const kernel = new FakeIptables();
    const rig = webs(onlyIPv4(kernel), 2);
    await rig.sync();
    const nat = () => kernel.kernels.IPv4.get('nat') ?? assert.fail();
    nat().set('THEIRS', ['-s 10.0.0.1/32 -j ACCEPT']);
    nat().get('PREROUTING')?.push('-j THEIRS');
    rig.remove('Service', 'default/web-1').remove('EndpointSlice', 'default/web-1-1');
    assert.equal((await rig.sync()).outcome, 'complete');
    await rig.mode.cleanup(new AbortController().signal);
    const left = [...nat().keys()].filter((chain) => !/^(PRE|POST)ROUTING$|^(IN|OUT)PUT$/.test(chain));
    assert.deepEqual(left, ['THEIRS']);
    assert.deepEqual(nat().get('PREROUTING'), ['-j THEIRS']);
  });

  it('keeps a chain to which another program refers, reports it, and writes the rest', async () => {
    const kernel = new FakeIptables();
    const rig = webs(onlyIPv4(kernel), 2);
    await rig.sync();
    const nat = kernel.kernels.IPv4.get('nat') ?? assert.fail();
    const chains = [...nat.keys()].filter((chain) => chain.startsWith('KUBE-SVC-'));
    nat.set('THEIRS', [`-j ${chains[0]}`]);
    for (const i of [1, 2]) rig.remove('Service', `default/web-${i}`).remove('EndpointSlice', `default/web-${i}-1`);
    const report = await rig.sync();
    assert.equal(report.outcome, 'partial');
    assert.deepEqual(
      report.failed.map((step) => step.key),
      [`IPv4 nat ${chains[0]}`],
    );
    const left = [...(kernel.kernels.IPv4.get('nat')?.keys() ?? [])].filter((chain) => chain.startsWith('KUBE-SVC-'));
    assert.deepEqual(left, [chains[0]]);
  });

  it('keeps the working state when the new state of a Service is refused (invariant 3)', async () => {
    for (const legacy of [false, true]) {
      const kernel = new FakeIptables({ legacy });
      await webs(onlyIPv4(kernel), 3).sync();
      kernel.options = { legacy, refuse: (line) => line.includes('-m recent') };
      // A restart: rules read from the kernel must be assigned to the Service too.
      const rig = webs(onlyIPv4(kernel), 3);
      rig.put(
        service({
          name: 'web-2',
          spec: { clusterIP: '10.96.0.2', ports: [{ name: 'new', port: 80 }], sessionAffinity: 'ClientIP' },
        }),
        slice({ name: 'web-2-1', service: 'web-2', ports: [{ name: 'new', port: 8080 }], endpoints: ['10.244.1.2'] }),
      );
      assert.equal((await rig.sync()).outcome, 'partial');
      const nat = kernel.kernels.IPv4.get('nat') ?? assert.fail();
      const dispatch =
        nat.get('KUBE-SERVICES')?.find((line) => line.startsWith('-d 10.96.0.2/32')) ?? assert.fail('no way in');
      const target = dispatch.split(' ').at(-1) ?? '';
      assert.match(nat.get(target)?.join() ?? '', /10\.244\.1\.2:8080/);
    }
  });

  it('sets aside a Service whose refused line is in a shared chain', async () => {
    for (const legacy of [false, true]) {
      const kernel = new FakeIptables({ legacy, refuse: (line) => line.includes('-m sctp') });
      const rig = webs(onlyIPv4(kernel), 5);
      rig.put(service({ name: 'odd', spec: { clusterIP: '10.96.1.1', ports: [{ port: 80, protocol: 'SCTP' }] } }));
      const report = await rig.sync();
      assert.equal(report.outcome, 'partial');
      assert.deepEqual(
        report.failed.map((step) => step.owner),
        ['default/odd'],
      );
      assert.equal(kernel.save('IPv4').match(/-j DNAT/g)?.length, 5);
    }
  });

  it('programs the rest when very many Services are refused', async () => {
    const isBad = (line: string) =>
      /--to-destination 10\.244\.1\.(\d+):/.test(line) && Number(/1\.(\d+):8080/.exec(line)?.[1]) > 30;
    const kernel = new FakeIptables({ refuse: isBad });
    const report = await webs(onlyIPv4(kernel), 130).sync();
    assert.equal(report.outcome, 'partial');
    const programmed = kernel.save('IPv4').match(/-j DNAT/g)?.length ?? 0;
    assert.ok(programmed >= 25, `${programmed} of the 30 that are right`);
  });

  it('does not search for a known culprit again until the retry (invariant 11)', async () => {
    const kernel = new FakeIptables({ refuse: (line) => line.includes('10.244.1.2:') });
    const rig = webs(new Rig({ commands: kernel, families: ['IPv4'], retry: 3_600_000 }), 5);
    await rig.sync();
    const before = kernel.ran.length;
    rig.put(slice({ name: 'web-1-1', service: 'web-1', endpoints: ['10.244.7.7'] }));
    const report = await rig.sync();
    assert.deepEqual(
      kernel.ran.slice(before).map(({ file }) => file),
      ['iptables-restore'],
    );
    assert.equal(report.outcome, 'partial', 'the agent does not forget that one is missing');
    assert.deepEqual(
      report.failed.map((step) => step.owner),
      ['default/web-2'],
    );
    // A change of the Service is a reason to try again.
    rig.put(slice({ name: 'web-2-1', service: 'web-2', endpoints: ['10.244.7.8'] }));
    assert.equal((await rig.sync()).outcome, 'complete');
  });

  it('keeps serving a Service that is set aside while its line moves to another chain and back', async () => {
    const kernel = new FakeIptables();
    const rig = webs(new Rig({ commands: kernel, families: ['IPv4'], retry: 3_600_000 }), 20);
    await rig.sync();
    const line = /-d 10\.96\.0\.2\/32 -p tcp -m comment --comment "default\/web-2 cluster IP" .* -j KUBE-SVC-/;
    const chainsWithLine = () =>
      [...(kernel.kernels.IPv4.get('nat') ?? [])]
        .filter(([, rules]) => rules.some((rule) => line.test(rule)))
        .map(([chain]) => chain);
    assert.deepEqual(chainsWithLine(), ['KUBE-SERVICES']);
    kernel.options = { refuse: (text) => text.includes('10.244.9.9') };
    const refused = slice({ name: 'web-2-1', service: 'web-2', endpoints: ['10.244.9.9'] });
    assert.equal((await rig.put(refused).sync()).outcome, 'partial');
    assert.equal((await webs(rig, 60).put(refused).sync()).outcome, 'partial');
    assert.match(chainsWithLine().join(), /^KUBE-DSS-[^,]+$/);
    for (let i = 21; i <= 60; i++)
      rig.remove('Service', `default/web-${i}`).remove('EndpointSlice', `default/web-${i}-1`);
    assert.equal((await rig.sync()).outcome, 'partial');
    assert.deepEqual(chainsWithLine(), ['KUBE-SERVICES']);
    assert.ok(kernel.save('IPv4').includes('--to-destination 10.244.1.2:8080'), 'and its old endpoint');
  });

  it('keeps serving a Service whose new line is refused when the chain of the old line is removed', async () => {
    const kernel = new FakeIptables();
    const rig = webs(new Rig({ commands: kernel, families: ['IPv4'], retry: 3_600_000 }), 60);
    await rig.sync();
    const linesIn = () =>
      [...(kernel.kernels.IPv4.get('nat') ?? [])].flatMap(([chain, rules]) =>
        rules.filter((rule) => rule.startsWith('-d 10.96.0.2/32')).map((rule) => [chain, rule] as const),
      );
    const [before, ...others] = linesIn();
    assert.deepEqual([before?.[0].startsWith('KUBE-DSS-'), others], [true, []]);
    kernel.options = { refuse: (line) => line.includes('-m recent') };
    const ports = [{ name: 'new', port: 80 }];
    rig.put(
      service({ name: 'web-2', spec: { clusterIP: '10.96.0.2', ports, sessionAffinity: 'ClientIP' } }),
      slice({ name: 'web-2-1', service: 'web-2', ports: [{ name: 'new', port: 8080 }], endpoints: ['10.244.1.2'] }),
    );
    assert.equal((await rig.sync()).outcome, 'partial');
    assert.deepEqual(linesIn(), [before]);
    for (let i = 21; i <= 60; i++)
      rig.remove('Service', `default/web-${i}`).remove('EndpointSlice', `default/web-${i}-1`);
    assert.equal((await rig.sync()).outcome, 'partial');
    assert.deepEqual(linesIn(), [['KUBE-SERVICES', before?.[1]]]);
    kernel.options = {};
    rig.remove('Service', 'default/web-2').remove('EndpointSlice', 'default/web-2-1');
    assert.equal((await rig.sync()).outcome, 'complete');
    assert.deepEqual(linesIn(), []);
  });

  it('is not complete when the lock is taken during the search for the refused Service', async () => {
    let restores = 0;
    const kernel = new FakeIptables({ legacy: true, refuse: (line) => line.includes('10.244.1.2:') });
    kernel.options = {
      ...kernel.options,
      intercept: ({ file }) => (file.endsWith('-restore') && ++restores > 3 ? LOCKED : undefined),
    };
    const rig = webs(onlyIPv4(kernel), 4);
    const report = await rig.sync();
    assert.equal(report.outcome, 'partial');
    assert.ok(report.failed.some((step) => /xtables lock/.test(step.cause)));
    kernel.options = {};
    assert.equal((await rig.sync()).outcome, 'complete');
    assert.equal(kernel.save('IPv4').match(/-j DNAT/g)?.length, 4);
  });

  it('removes a Service that is deleted while it is set aside', async () => {
    const kernel = new FakeIptables();
    const rig = webs(new Rig({ commands: kernel, families: ['IPv4'], retry: 3_600_000 }), 2);
    await rig.sync();
    kernel.options = { refuse: (line) => line.includes('--to-destination 10.244.9.9') };
    rig.put(slice({ name: 'web-1-1', service: 'web-1', endpoints: ['10.244.9.9'] }));
    assert.equal((await rig.sync()).outcome, 'partial');
    rig.remove('Service', 'default/web-1').remove('EndpointSlice', 'default/web-1-1');
    assert.equal((await rig.sync()).outcome, 'complete');
    assert.ok(!kernel.save('IPv4').includes('10.96.0.1/32'));
  });

  it('does not plan when a part of the kernel could not be read', async () => {
    const kernel = new FakeIptables({
      intercept: ({ file }) => (file === 'ip6tables-save' ? { exitCode: 1, stdout: '', stderr: 'broken' } : undefined),
    });
    await assert.rejects(
      webs(new Rig({ commands: kernel }), 1).loop.plan(new AbortController().signal),
      /part of the kernel could not be read/,
    );
  });

  it('programs IPv4 while IPv6 cannot be read', async () => {
    const kernel = new FakeIptables({
      intercept: ({ file }) => (file === 'ip6tables-save' ? { exitCode: 1, stdout: '', stderr: 'broken' } : undefined),
    });
    const report = await webs(new Rig({ commands: kernel }), 2).sync();
    assert.equal(report.outcome, 'partial');
    assert.deepEqual(
      report.failed.map((step) => step.key),
      ['IPv6 read'],
    );
    assert.match(kernel.save('IPv4'), /10\.244\.1\.2:8080/);
  });

  it('does not treat a table that iptables-save omits as empty (invariant 2)', async () => {
    const kernel = new FakeIptables();
    await webs(onlyIPv4(kernel), 1).sync();
    const before = kernel.save('IPv4');
    const stdout = "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n# Table `nat' is incompatible, use 'nft' tool.\n";
    kernel.options = {
      intercept: ({ file }) => (file.endsWith('-save') ? { exitCode: 0, stdout, stderr: '' } : undefined),
    };
    const rig = webs(onlyIPv4(kernel), 1);
    const report = await rig.sync();
    assert.equal(report.outcome, 'failed');
    assert.match(report.failed[0]?.cause ?? '', /Table `nat' is incompatible/);
    assert.equal(kernel.save('IPv4'), before);
    await assert.rejects(rig.mode.cleanup(new AbortController().signal), /incompatible/);
  });

  it('cleans up every jump to its chains, with duplicates', async () => {
    const kernel = new FakeIptables();
    const rig = webs(onlyIPv4(kernel), 1);
    await rig.sync();
    const nat = kernel.kernels.IPv4.get('nat') ?? assert.fail();
    nat
      .get('PREROUTING')
      ?.push(nat.get('PREROUTING')?.[0] ?? '', '-m comment --comment other -j KUBE-SERVICES', '-j ACCEPT');
    await rig.mode.cleanup(new AbortController().signal);
    assert.deepEqual(kernel.kernels.IPv4.get('nat')?.get('PREROUTING'), ['-j ACCEPT']);
  });

  it('reports drift when another program changed our chains, and repairs it', async () => {
    const kernel = new FakeIptables();
    const rig = webs(onlyIPv4(kernel), 2);
    await rig.sync();
    const right = kernel.save('IPv4');
    const nat = kernel.kernels.IPv4.get('nat') ?? assert.fail();
    nat.get('KUBE-SERVICES')?.splice(0, 1);
    rig.loop.distrust();
    const report = await rig.sync();
    assert.deepEqual(report.drift.map(driftText), ['IPv4 nat KUBE-SERVICES (1 rule gone)']);
    assert.equal(kernel.save('IPv4'), right);
  });
});
