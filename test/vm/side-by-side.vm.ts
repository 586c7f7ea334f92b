/**
 * The same objects by kube-proxy in IPVS mode, as recorded from the real one, and by slicewire: virtual servers, sets and addresses side by
 * side. Each difference has its reason here.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { Lab } from '../../src/cli/lab/lab.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { OBJECTS, settings } from '../recordings/kube-proxy/objects.ts';
import { IPVS_VERSIONS, recordedFile } from '../recordings/kube-proxy/scene.ts';

/** Milliseconds: the machine may be emulated. */
const PATIENCE = 300_000;

interface Differing {
  readonly theirs: readonly string[];
  readonly ours: readonly string[];
}

const ALIKE: Differing = { theirs: [], ours: [] };

/** Where policy Local has no endpoint on the node, kube-proxy sends clients outside to other nodes, and slicewire drops (docs/ipvs.md). */
const SERVERS: Differing = {
  theirs: ['10.244.1.1:30027', '192.168.77.2:30027', '203.0.113.27:80'].map(
    (address) => `-a -t ${address} -r 10.244.2.11:8080 -m -w 1`,
  ),
  ours: [],
};

/** A pod of another node reaches itself by a Service of policy Local (docs/semantics.md 7.7). */
const ENTRIES: Differing = { theirs: [], ours: ['add KUBE-LOOP-BACK 10.244.2.11,tcp:8080,10.244.2.11'] };

describe('IPVS mode beside kube-proxy', () => {
  const version = IPVS_VERSIONS.at(-1) ?? '';
  let lab: Lab;
  let node: ManifestNode;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 1, remotePods: 0, signal: NEVER });
    node = await ManifestNode.create(lab);
    await node.write('objects', ...OBJECTS);
    const agent = node.start('--mode=ipvs', ...settings('ipvs'));
    await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
  });
  after(async () => {
    await node.clear();
    await lab.remove();
  });

  const compared = (theirs: readonly string[], ours: readonly string[]): Differing => ({
    theirs: [...new Set(theirs).difference(new Set(ours))].sort(),
    ours: [...new Set(ours).difference(new Set(theirs))].sort(),
  });
  const recorded = (name: string) => readFileSync(recordedFile(version, `ipvs/${name}`), 'utf8');
  const lines = (text: string) =>
    text
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');

  it('has the same virtual servers and destinations', async () => {
    const found = compared(lines(recorded('servers.save')), lines(await lab.exec('node', 'ipvsadm', '-Sn')));
    assert.deepEqual(found, SERVERS);
  });

  it('has the same entries in the sets that both have', async () => {
    const entries = (text: string) =>
      lines(text).filter((line) => line.startsWith('add ') && !/ KUBE-(6-)?IPVS-/.test(line));
    const found = compared(entries(recorded('sets.save')), entries(await lab.exec('node', 'ipset', 'save')));
    assert.deepEqual(found, ENTRIES);
  });

  it('has the same addresses on kube-ipvs0', async () => {
    const shown = await lab.exec('node', 'ip', '-o', 'addr', 'show', 'dev', 'kube-ipvs0');
    const ours = [...shown.matchAll(/ inet6? (\S+) /g)].map(([, address = '']) => address);
    const theirs = [...recorded('addresses.batch').matchAll(/^addr add (\S+)/gm)].map(([, address = '']) => address);
    assert.deepEqual(
      compared(
        theirs,
        ours.filter((one) => !one.startsWith('fe80')),
      ),
      ALIKE,
    );
  });
});
