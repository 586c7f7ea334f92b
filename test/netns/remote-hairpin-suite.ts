/**
 * A pod that is an endpoint, and comes to itself by the node port of another node. `node` has the pod, in a namespace of its own;
 * `other` runs the agent. The proxy of the pod's node has no part: the address is not one of its own. For every mode.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { LAB, Lab, podAddress, remotePodAddress } from '../../src/cli/lab/lab.ts';
import type { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { NODE_PORT, POD_PORT } from '../helpers/cli/lab/web.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

export interface RemoteHairpinOptions {
  readonly mode: string;
  readonly flags: readonly string[];
  readonly createNode: (lab: Lab) => Promise<ManifestNode>;
  /** Milliseconds in which something happens; an emulated machine takes minutes. */
  readonly patience?: number;
}

const CONNECTIONS = 40;
const FAMILIES = ['v4', 'v6'] as const;
/** Services of policy Local: before the pod and one of the agent's node, and before the pod alone. */
const SERVICES = { both: NODE_PORT, alone: NODE_PORT + 1 } as const;

function objects(name: keyof typeof SERVICES): object[] {
  const n = SERVICES[name] - NODE_PORT + 10;
  return [
    service({
      name,
      spec: {
        ...{ type: 'NodePort', externalTrafficPolicy: 'Local', ipFamilies: ['IPv4', 'IPv6'] },
        ...{ clusterIP: `10.96.0.${n}`, clusterIPs: [`10.96.0.${n}`, `fd00:96::${n}`] },
        ports: [{ port: 80, nodePort: SERVICES[name] }],
      },
    }),
    ...FAMILIES.map((family) => {
      const endpoints = [{ addresses: [podAddress(1)[family]], nodeName: 'node' }];
      if (name === 'both') endpoints.push({ addresses: [remotePodAddress(1)[family]], nodeName: 'other' });
      const addressType = family === 'v4' ? ('IPv4' as const) : ('IPv6' as const);
      const ports = [{ name: '', port: POD_PORT }];
      return slice({ name: `${name}-${family}`, service: name, addressType, ports, endpoints });
    }),
  ];
}

export function describeRemoteHairpin({ mode, flags, createNode, patience = 60_000 }: RemoteHairpinOptions): void {
  describe(`a pod that comes to itself by another node, ${mode}`, () => {
    let lab: Lab;
    let node: ManifestNode;
    let other: ManifestNode;

    before(async () => {
      lab = await Lab.create({ commands: shellCommands, pods: 1, remotePods: 1, signal: NEVER });
      await lab.serve('pod-1', 'TCP', POD_PORT);
      for (const address of Object.values(remotePodAddress(1))) await lab.serve('other', 'TCP', POD_PORT, address);
      node = await createNode(lab);
      other = node.beside('other');
      await node.write('web', ...objects('both'), ...objects('alone'));
      const agent = other.start('--cluster-cidr', Object.values(LAB.clusterCidr).join(','), ...flags);
      await agent.logged(({ msg }) => msg.startsWith('synced'), { within: patience });
    });
    after(async () => {
      await other?.stop();
      await node?.clear();
      await lab?.remove();
    });

    /** How connections of the pod ended: by whom each was answered, and the source that was seen, with their numbers. */
    async function ended(address: string, port: number): Promise<Map<string, number>> {
      const ask = () => lab.ask('pod-1', { address, port, timeout: patience / 4 });
      const counts = new Map<string, number>();
      for (const said of await Promise.all(Array.from({ length: CONNECTIONS }, ask))) {
        const end = said.outcome === 'reply' ? `${said.by} saw ${said.seen}` : said.outcome;
        counts.set(end, (counts.get(end) ?? 0) + 1);
      }
      return counts;
    }

    for (const family of FAMILIES) {
      const [address, pod] = [LAB.otherNode[family], podAddress(1)[family]];
      const itself = `pod-1 saw ${address}`;

      it(`reaches itself and the endpoint there in ${CONNECTIONS} of ${CONNECTIONS} tries, IP${family}`, async () => {
        const counts = await ended(address, SERVICES.both);
        assert.deepEqual([...counts.keys()].sort(), [`other saw ${pod}`, itself].sort(), JSON.stringify([...counts]));
      });

      it(`reaches itself in ${CONNECTIONS} of ${CONNECTIONS} tries as the only endpoint, IP${family}`, async () => {
        assert.deepEqual([...(await ended(address, SERVICES.alone))], [[itself, CONNECTIONS]]);
      });
    }
  });
}
