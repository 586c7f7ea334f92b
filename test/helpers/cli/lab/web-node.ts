/** A node of manifests with two Pods behind the Service `web`, made anew for each test of a suite. */
import { after, afterEach, before, beforeEach } from 'node:test';
import { Lab } from '../../../../src/cli/lab/lab.ts';
import { shellCommands } from '../../kernel/shell-commands.ts';
import { NEVER } from '../../proxy/rig.ts';
import { ManifestNode } from './manifest-node.ts';
import { POD_PORT, webObjects } from './web.ts';

export interface WebNode {
  /** For all tests of the suite. */
  readonly lab: Lab;
  readonly node: ManifestNode;
}

/** Registers hooks of the suite that calls it. Rules of both variants of iptables are removed after each test. */
export function webNode(): WebNode {
  let lab: Lab;
  let node: ManifestNode;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    for (const n of [1, 2]) await lab.serve(`pod-${n}`, 'TCP', POD_PORT);
  });
  after(() => lab.remove());
  beforeEach(async () => {
    node = await ManifestNode.create(lab);
    await node.write('web', ...webObjects([1, 2], { hasOther: false }));
  });
  afterEach(async () => {
    await node.stop();
    for (const backend of ['nft', 'legacy']) await node.run('cleanup', '--iptables-backend', backend);
    await node.clear();
  });
  return {
    get lab() {
      return lab;
    },
    get node() {
      return node;
    },
  };
}
