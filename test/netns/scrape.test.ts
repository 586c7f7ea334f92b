/** A real agent asked by Prometheus from another machine: what is open there, and what promtool says of its metrics. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { startAgent } from '../helpers/cli/slicewire.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { OF_UPSTREAM, promtool } from '../helpers/telemetry/promtool.ts';
import { askNode } from './node-server.ts';

/** The node's own address, as its neighbours know it. */
const NODE = '192.168.77.2';

describe('an agent with --scrape-bind-address', () => {
  let lab: Lab;
  let folder: string;
  let agent: AgentProcess;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 1, remotePods: 0, signal: NEVER });
    folder = await mkdtemp(join(tmpdir(), 'slicewire-test-'));
    const items = [
      service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } }),
      slice({
        ...{ name: 'web-1', service: 'web', addressType: 'IPv4', ports: [{ name: '', port: 8080 }] },
        endpoints: [{ addresses: [podAddress(1).v4], nodeName: 'node' }],
      }),
    ];
    await writeFile(join(folder, 'web.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    const flags = ['--manifests', join(folder, 'web.json'), '--hostname-override', 'node', '--mode', 'nftables'];
    agent = startAgent(lab, ['run', ...flags, '--scrape-bind-address', NODE]);
    await agent.synced();
  });
  after(async () => {
    await agent.stop();
    await lab.remove();
    await rm(folder, { recursive: true });
  });

  /** From another machine: the status, and the body. */
  async function fromOutside(path: string): Promise<readonly [status: string, body: string]> {
    const args = ['-sS', '-m', '10', '-w', '\n%{http_code}', `http://${NODE}:10249${path}`];
    const { stdout, stderr } = await shellCommands.run(lab.inside('client', 'curl', args), NEVER);
    const [, body = '', status = ''] = /^(.*)\n(\d+)$/s.exec(stdout) ?? assert.fail(stderr);
    return [status, body];
  }

  it('serves metrics to other machines, and nothing else', async () => {
    const [status, text] = await fromOutside('/metrics');
    assert.equal(status, '200');
    assert.match(text, /^slicewire_ready 1$/m);
    assert.match(text, /^slicewire_sync_triggers_total\{trigger="start"\} 1$/m);
    for (const path of ['/', '/configz', '/proxyMode', '/statusz', '/flagz', '/status', '/history', '/live'])
      assert.equal((await fromOutside(path))[0], '404', path);
  });

  it('answers the rest on loopback, as without the flag', async () => {
    assert.equal((await askNode(lab, '/proxyMode', 10_249)).body, 'nftables');
    const accept = (kind: string) => `{ headers: { accept: 'application/json;v=v1beta1;g=config.k8s.io;as=${kind}' } }`;
    const flagz = JSON.parse((await askNode(lab, '/flagz', 10_249, accept('Flagz'))).body);
    assert.deepEqual(
      [flagz.kind, flagz.flags['scrape-bind-address'], flagz.flags.mode, flagz.flags['oom-score-adj']],
      ['Flagz', NODE, 'nftables', '-999'],
    );
    const { paths, uptimeSeconds } = JSON.parse((await askNode(lab, '/statusz', 10_249, accept('Statusz'))).body);
    assert.ok(uptimeSeconds >= 0 && uptimeSeconds < 600);
    for (const path of paths.filter((one: string) => !['/', '/live', '/recording'].includes(one))) {
      // Some want parameters; none is unknown.
      assert.notEqual((await askNode(lab, path, 10_249)).status, 404, path);
    }
  });

  it('has metrics that promtool reads, with no complaint but about names of others', async () => {
    const { stdout, stderr } = await promtool(['check', 'metrics'], (await fromOutside('/metrics'))[1]);
    assert.equal(stdout, '');
    const complaints = stderr.split('\n').filter((line) => line !== '');
    assert.deepEqual(
      complaints.filter((line) => !OF_UPSTREAM.includes(line)),
      [],
    );
  });
});
