/** Each scheduler of IPVS as the annotation of a Service: real connections go as docs/ipvs.md says. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { LAB, Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { SCHEDULERS } from '../../src/proxy/model/ipvs-scheduler.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { POD_PORT } from '../helpers/cli/lab/web.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

/** Milliseconds: the machine may be emulated. */
const PATIENCE = 300_000;
const ENDPOINTS = [1, 2, 3];
const CLIENT = 'pod-4';
const CONNECTIONS = 12;

/** With flags of sh and mh as well. Debian's kernels have no module for twos; `npm test` has its server. */
const ASKED = [
  ...SCHEDULERS.filter((name) => name !== 'twos'),
  ...['sh,sh-port', 'mh,mh-fallback', 'mh,mh-port,mh-fallback'],
];
/** The endpoints that one client gets, one connection after another. */
const EVEN = ['rr', 'wrr'];
const ONE = ['dh', 'fo', 'lblc', 'lblcr', 'sh', 'mh,mh-fallback'];
const SOME = ['mh', 'mh,mh-port,mh-fallback', 'sh,sh-port'];

const addressOf = (i: number) => `10.96.7.${i + 1}`;

describe('schedulers of IPVS', () => {
  let lab: Lab;
  let node: ManifestNode;
  let agent: AgentProcess;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 4, remotePods: 0, signal: NEVER });
    for (const n of ENDPOINTS) await lab.serve(`pod-${n}`, 'TCP', POD_PORT);
    node = await ManifestNode.create(lab);
    const endpoints = ENDPOINTS.map((n) => podAddress(n).v4);
    const objects = ASKED.flatMap((scheduler, i) => [
      service({
        ...{ name: `web-${i}`, annotations: { 'slicewire.dev/ipvs-scheduler': scheduler } },
        spec: { clusterIP: addressOf(i), ports: [{ port: 80 }] },
      }),
      slice({ name: `web-${i}-1`, service: `web-${i}`, ports: [{ name: '', port: POD_PORT }], endpoints }),
    ]);
    await node.write('web', ...objects);
    agent = node.start('--mode=ipvs', '--cluster-cidr', LAB.clusterCidr.v4);
    await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
  });
  after(async () => {
    await node.clear();
    await lab.remove();
  });

  it('are all in the kernel, each with its Service', async () => {
    const servers = await lab.exec('node', 'ipvsadm', '-Sn');
    for (const [i, scheduler] of ASKED.entries()) {
      const [name = '', ...flags] = scheduler.split(',');
      const line = servers.split('\n').find((one) => one.startsWith(`-A -t ${addressOf(i)}:80 `));
      const wanted = scheduler === 'mh' ? ['mh-port'] : flags;
      assert.match(`${line} `, new RegExp(` -s ${name} `));
      const there = (/ -b (\S+)/.exec(line ?? '')?.[1] ?? '').split(',').filter((flag) => flag !== '');
      assert.deepEqual(there.sort(), wanted.sort(), servers);
    }
  });

  it('one that the kernel has not is refused, which names its module, and every other Service is served', async (t) => {
    if (
      await lab.exec('node', 'modinfo', 'ip_vs_twos').then(
        () => true,
        () => false,
      )
    )
      return t.skip('this kernel has twos');
    const address = addressOf(ASKED.length);
    const [since, annotations] = [agent.log.length, { 'slicewire.dev/ipvs-scheduler': 'twos' }];
    const spec = { clusterIP: address, ports: [{ port: 80 }] };
    const endpoints = [podAddress(1).v4];
    await node.write(
      'unknown',
      service({ name: 'unknown', annotations, spec }),
      slice({ name: 'unknown-1', service: 'unknown', ports: [{ name: '', port: POD_PORT }], endpoints }),
    );
    await agent.logged(({ msg }) => msg.includes('default/unknown') && msg.includes('ip_vs_twos'), {
      since,
      within: PATIENCE,
    });
    const servers = await lab.exec('node', 'ipvsadm', '-Sn');
    assert.ok(!servers.includes(`${address}:`), servers);
    assert.equal(servers.match(/^-A /gm)?.length, ASKED.length);
  });

  for (const [i, scheduler] of ASKED.entries()) {
    it(`${scheduler}: every connection is answered; what a hash or a turn chooses is the endpoint that it should be`, async () => {
      const counts = new Map<string, number>();
      for (let n = 0; n < CONNECTIONS; n++) {
        const answer = await lab.ask(CLIENT, { address: addressOf(i), port: 80, timeout: 10_000 });
        assert.ok(answer.outcome === 'reply', JSON.stringify(answer));
        counts.set(answer.by, (counts.get(answer.by) ?? 0) + 1);
      }
      const shown = JSON.stringify([...counts]);
      if (EVEN.includes(scheduler))
        assert.deepEqual(
          [...counts.values()],
          ENDPOINTS.map(() => CONNECTIONS / 3),
          shown,
        );
      if (ONE.includes(scheduler)) assert.equal(counts.size, 1, shown);
      if (SOME.includes(scheduler)) assert.ok(counts.size > 1, shown);
    });
  }
});
