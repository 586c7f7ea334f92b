/** nftables mode as the root of a user namespace, who may not pass the system's limits, and as one whose rights end before the network. */

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { FAMILIES } from '../../src/base/address.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { NftNetlink } from '../../src/kernel/nftables-netlink.ts';
import { nftablesMode } from '../../src/proxy/modes/nftables/index.ts';
import { nftablesSettingsOf } from '../conformance/nftables.ts';
import { SLICEWIRE } from '../helpers/cli/slicewire.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { transportsIn } from '../helpers/kernel/namespace-sockets.ts';
import { NEVER, Rig } from '../helpers/proxy/rig.ts';

/** With two endpoints each, and what they have beside: 10,000 elements. */
const SERVICES = 2000;
/** Bytes: what Linux gives a socket that nobody asks for more. */
const SMALL = 106_496;

/** slicewire, in a script. */
const QUOTED = SLICEWIRE.map((word) => `'${word}'`).join(' ');

/** As the root of a namespace of users; `-n`: with a network of its own. */
const rootOf = (flags: '-Ur' | '-Urn', script: string, ...args: string[]) => ({
  file: 'unshare',
  args: [flags, 'bash', '-c', script, 'bash', ...args],
});
const { exitCode: refused } = await realCommands.run({ file: 'unshare', args: ['-Urn', 'true'] }, NEVER);
const skip = refused === 0 ? false : 'this machine lets nobody make user namespaces';

function web(n: number, endpoints: number): object[] {
  const address = (i: number) => `10.${64 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`;
  return [
    service({ name: `web-${n}`, spec: { clusterIP: `10.96.${n >> 8}.${n & 255}`, ports: [{ port: 80 }] } }),
    slice({
      name: `web-${n}-1`,
      service: `web-${n}`,
      endpoints: Array.from({ length: endpoints }, (_, i) => ({ addresses: [address(n * 2 + i)], nodeName: 'node' })),
    }),
  ];
}

describe('nftables mode in a user namespace', { skip }, () => {
  let folder: string;
  const name = `sw${process.pid}-user`;
  const inside = async (...words: string[]) => {
    const { exitCode, stdout, stderr } = await realCommands.run(
      { file: 'ip', args: ['netns', 'exec', name, ...words] },
      NEVER,
    );
    return { status: exitCode, out: stdout, error: stderr };
  };

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-test-'));
    await realCommands.run({ file: 'ip', args: ['netns', 'add', name] }, NEVER);
    const items = Array.from({ length: SERVICES }, (_, i) => web(i, 2)).flat();
    await writeFile(join(folder, 'webs.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
  });
  after(async () => {
    await realCommands.run({ file: 'ip', args: ['netns', 'delete', name] }, NEVER);
    await rm(folder, { recursive: true });
  });

  it('writes ten thousand elements as its root, takes over from kube-proxy, and cleans up', async () => {
    const script = `set -e
      nft add table ip kube-proxy
      ${QUOTED} run --once --mode=nftables --hostname-override node --conntrack-max-per-core 0 --manifests "$1" >&2
      nft list ruleset | grep -c ' : 10\\.'
      nft list tables
      nft add table ip kube-proxy
      ${QUOTED} cleanup
      nft list tables`;
    const { exitCode, stdout, stderr } = await realCommands.run(rootOf('-Urn', script, folder), NEVER);
    assert.equal(exitCode, 0, stderr);
    assert.equal(
      stdout,
      `${SERVICES * 2}\ntable ip slicewire\ntable ip6 slicewire\n` +
        '- IPv4 nftables table slicewire\n- IPv4 nftables table kube-proxy\n- IPv6 nftables table slicewire\n3 objects removed\n',
    );
  });

  it('says which capability is missing where its rights end, and what stays, and fails', async () => {
    await inside('nft', 'add', 'table', 'ip', 'kube-proxy');
    const needs =
      "no permission to use the kernel's nftables: EPERM: operation not permitted; slicewire needs the capability NET_ADMIN over its network namespace: " +
      'run it as root, or in the user namespace that owns the network namespace';
    const cleanup = rootOf('-Ur', `${QUOTED} cleanup`);
    const { status, out, error } = await inside(cleanup.file, ...cleanup.args);
    assert.deepEqual([status, out], [1, '']);
    assert.ok(error.endsWith(`; ${needs}; tables named slicewire or kube-proxy stay, if there are any\n`), error);
    const flags = '--once --mode=nftables --hostname-override node --conntrack-max-per-core 0';
    const run = rootOf('-Ur', `${QUOTED} run ${flags} --manifests "$1"`, folder);
    const ran = await inside(run.file, ...run.args);
    assert.equal(ran.status, 1);
    assert.ok(ran.error.endsWith(`slicewire: ${needs}\n`), ran.error);
    assert.equal((await inside('nft', 'list', 'tables')).out, 'table ip kube-proxy\n');
  });
});

describe('nftables mode over a socket of the usual size', () => {
  const name = `sw${process.pid}-small`;
  let kernel: NftNetlink;
  before(async () => {
    await realCommands.run({ file: 'ip', args: ['netns', 'add', name] }, NEVER);
    const open = transportsIn(name);
    kernel = new NftNetlink((protocol, longest) => open(protocol, longest && Math.min(longest, SMALL)));
  });
  after(async () => {
    kernel.close();
    await realCommands.run({ file: 'ip', args: ['netns', 'delete', name] }, NEVER);
  });

  it('writes all in transactions that fit, but for a Service that does not: it is named, with what to do', async () => {
    const families = FAMILIES.map((family) => nftablesSettingsOf(family, {}));
    const rig = new Rig({ commands: new FakeIptables(), mode: nftablesMode({ families, kernel }) });
    assert.ok((kernel.room ?? 0) < 4 * SMALL);
    for (let i = 0; i < SERVICES; i++) rig.put(...web(i, 2));
    rig.put(...web(SERVICES, 6000));
    const { outcome, failed } = await rig.sync();
    assert.deepEqual([outcome, failed.map(({ owner }) => owner)], ['partial', [`default/web-${SERVICES}`]]);
    assert.match(
      failed[0]?.cause ?? '',
      /^a transaction of \d{6} bytes exceeds the socket's 212960: raise net\.core\.wmem_max on the node to \d{6}, or run slicewire as root of the node: /,
    );
    const state = (await kernel.read('IPv4')) ?? assert.fail();
    assert.equal(state.sets.get('backends')?.length, SERVICES * 2);
    rig.put(...web(SERVICES, 3));
    assert.equal((await rig.sync()).outcome, 'complete');
  });
});
