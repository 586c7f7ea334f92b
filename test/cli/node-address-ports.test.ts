/** A folder of manifests cannot take a port from a program on this node. Runs in a namespace, with a program that listens there. */

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type Child, realCommands, startChild } from '../../src/kernel/commands.ts';
import { SLICEWIRE } from '../helpers/cli/slicewire.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { MANIFESTS as MANIFEST_ROWS } from '../messages/manifests.ts';
import { problemIn } from '../messages/row.ts';

const NODE = '192.0.2.7';
const PORT = 2222;

const MANIFESTS = JSON.stringify({
  apiVersion: 'v1',
  kind: 'List',
  items: [
    service({ name: 'ssh', spec: { clusterIP: '10.96.0.1', externalIPs: [NODE], ports: [{ port: PORT }] } }),
    service({ name: 'web', spec: { clusterIP: '10.96.0.2', externalIPs: [NODE], ports: [{ port: 80 }] } }),
    service({ name: 'health', spec: { clusterIP: '10.96.0.3', externalIPs: [NODE], ports: [{ port: 10_256 }] } }),
    ...['ssh', 'web', 'health'].map((name) => slice({ name, service: name, endpoints: ['10.0.0.1'] })),
  ],
});

describe('with a program that listens on an address of this node', () => {
  const namespace = `sw${process.pid}-own`;
  const ip = (...args: string[]) => realCommands.run({ file: 'ip', args }, NEVER);
  let program: Child | undefined;

  before(async () => {
    await ip('netns', 'add', namespace);
    await ip('-n', namespace, 'address', 'add', `${NODE}/32`, 'dev', 'lo');
    await ip('-n', namespace, 'link', 'set', 'lo', 'up');
    const source = `net.createServer().listen(${PORT}, () => console.log('listens'))`;
    await new Promise<void>((resolve, reject) => {
      const args = ['netns', 'exec', namespace, process.execPath, '-e', source];
      program = startChild({ file: 'ip', args, onLine: () => resolve() });
      void program.ended.then((status) => reject(new Error(`it ended with ${status}`)));
    });
  });
  after(async () => {
    await program?.stop();
    await ip('netns', 'delete', namespace);
  });

  async function plan(...flags: string[]): Promise<{ plan: string; log: string }> {
    const args = ['netns', 'exec', namespace, ...SLICEWIRE, 'plan', '--manifests', '-', ...flags];
    const { stdout, stderr } = await realCommands.run({ file: 'ip', args, input: () => [MANIFESTS] }, NEVER);
    return { plan: stdout, log: stderr };
  }

  it('its port is left out, and so is that of our own health; a free one is served', async () => {
    const { plan: text, log } = await plan();
    for (const [name, port] of [
      ['ssh', PORT],
      ['health', 10_256],
    ] as const) {
      const inUse = problemIn(MANIFEST_ROWS, 'Service default/web: spec.externalIPs: 192.0.2.7').replace(
        'port 22',
        `port ${port}`,
      );
      const said = `Service default/${name}: spec.externalIPs: ${NODE}: ${inUse} (part left out)`;
      assert.ok(log.includes(said), log);
      assert.doesNotMatch(text, new RegExp(`-d ${NODE}(/32)? .*--dport ${port} `));
    }
    assert.match(text, new RegExp(`-d ${NODE}(/32)? .*--dport 80 `));
  });

  it('it is served where that is allowed', async () => {
    const { plan: text, log } = await plan('--allow-node-address-ports');
    assert.doesNotMatch(log, /is an address of this node/);
    assert.match(text, new RegExp(`-d ${NODE}(/32)? .*--dport ${PORT} `));
  });
});
