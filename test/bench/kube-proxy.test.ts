/** A program in the place of kube-proxy: when it is ready, and what is said when it is not. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Lab } from '../../src/cli/lab/lab.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { KubeProxy, kubeProxyVersion } from './kube-proxy.ts';

/** One family is synced at once, the other a little later: only then is the proxy ready. */
const READY = `
const start = Date.now() / 1000;
const line = (family, at) => 'kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="' + family + '"} ' + at + '\\n';
const count = (family) => 'kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="' + family + '"} 3\\n';
const sum = (family) => 'kubeproxy_sync_proxy_rules_duration_seconds_sum{ip_family="' + family + '"} 0.25\\n';
require('node:http').createServer((_, response) => {
  const isLate = Date.now() / 1000 > start + 0.4;
  response.end(line('IPv4', start + 0.1) + count('IPv4') + sum('IPv4') + (isLate ? line('IPv6', start + 0.4) + count('IPv6') + sum('IPv6') : ''));
}).listen(10249, '127.0.0.1');
`;

describe('kube-proxy in the lab', () => {
  const folder = mkdtempSync(join(tmpdir(), 'kube-proxy-test-'));
  let lab: Lab;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
  });
  after(async () => {
    await lab?.remove();
    rmSync(folder, { recursive: true });
  });

  function program(name: string, text: string): string {
    const [file, script] = [join(folder, name), join(folder, `${name}.cjs`)];
    writeFileSync(script, text);
    writeFileSync(file, `#!/bin/sh\nexec ${process.execPath} ${script} "$@"\n`, { mode: 0o755 });
    return file;
  }
  const options = (file: string) => ({ lab, file, kubeconfig: '/none', mode: 'nftables' as const });

  it('is ready when its metric has a time for both families', async () => {
    const proxy = await KubeProxy.start(options(program('ready', READY)), { within: 20_000 });
    try {
      assert.ok(proxy.milliseconds >= 400 && proxy.milliseconds < 20_000, `${proxy.milliseconds}`);
      assert.deepEqual(await proxy.syncs(), { count: 6, seconds: 0.5 });
    } finally {
      await proxy.stop();
    }
  });

  it('is named with what it said when it ends or never syncs', async () => {
    const failing = program('failing', "console.error('no such mode'); process.exit(3);");
    await assert.rejects(KubeProxy.start(options(failing), { within: 20_000 }), /ended with status 3\nno such mode$/);
    const silent = program('silent', 'setInterval(() => {}, 1000);');
    await assert.rejects(KubeProxy.start(options(silent), { within: 500 }), /has not synced within/);
  });

  it('says its version, which the report names', async () => {
    assert.equal(await kubeProxyVersion(program('version', "console.log('Kubernetes v1.36.2');")), 'v1.36.2');
    await assert.rejects(kubeProxyVersion('/bin/true'), /does not say "Kubernetes v…"/);
  });
});
