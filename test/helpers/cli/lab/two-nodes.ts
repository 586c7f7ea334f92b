/**
 * A cluster of two nodes on one network with a client, and Services of type LoadBalancer whose addresses somebody announces there.
 * The source that an endpoint sees tells which node the connection came through.
 */
import type { AgentProcess } from '../../../../src/cli/lab/agent-process.ts';
import { LAB, Lab, podAddress } from '../../../../src/cli/lab/lab.ts';
import { service, slice } from '../../cluster/objects.ts';
import { shellCommands } from '../../kernel/shell-commands.ts';
import { NEVER } from '../../proxy/rig.ts';
import { ArpPort } from './arp.ts';
import { ManifestNode } from './manifest-node.ts';
import { NODE_PORT, POD_PORT } from './web.ts';

export type NodeName = 'node' | 'other';
/** Addresses of the network of the nodes that no machine has: of the Services `web`, `local` and `proxied`. */
export const VIPS = {
  web: { v4: '192.168.77.200', v6: 'fd00:77::200' },
  local: { v4: '192.168.77.201', v6: 'fd00:77::201' },
  proxied: { v4: '192.168.77.202', v6: 'fd00:77::202' },
} as const;
export const HEALTH_CHECK_PORT = 32_000;

/** What pod-1 sees as the source of a masqueraded connection, and the node that it came through. */
const SEEN: Readonly<Record<string, NodeName>> = {
  [LAB.bridge.v4]: 'node',
  [LAB.bridge.v6]: 'node',
  [LAB.otherNode.v4]: 'other',
  [LAB.otherNode.v6]: 'other',
};

/** Milliseconds: the machine may be emulated. */
const PATIENCE = 300_000;
const CIDRS = Object.values(LAB.clusterCidr).join(',');

/** `web` of policy Cluster, `local` of policy Local, and `proxied` of ipMode Proxy, all before pod-1 of the node called `node`. */
function announced(): object[] {
  const nodes = { node: LAB.node, other: LAB.otherNode };
  const balanced = (name: keyof typeof VIPS, n: number, spec: object, ipMode = 'VIP'): object[] => [
    service({
      name,
      spec: {
        ...{ type: 'LoadBalancer', clusterIP: `10.96.0.${n}`, clusterIPs: [`10.96.0.${n}`, `fd00:96::${n}`] },
        ...{ ipFamilies: ['IPv4', 'IPv6'], ports: [{ port: 80 }], ...spec },
      },
      status: { loadBalancer: { ingress: Object.values(VIPS[name]).map((ip) => ({ ip, ipMode })) } },
    }),
    ...(['IPv4', 'IPv6'] as const).map((addressType) =>
      slice({
        ...{ name: `${name}-${addressType.toLowerCase()}`, service: name, addressType },
        ports: [{ name: '', port: POD_PORT }],
        endpoints: [{ addresses: [podAddress(1)[addressType === 'IPv4' ? 'v4' : 'v6']], nodeName: 'node' }],
      }),
    ),
  ];
  return [
    ...Object.entries(nodes).map(([name, { v4, v6 }]) => ({
      ...{ apiVersion: 'v1', kind: 'Node', metadata: { name } },
      status: { addresses: [v4, v6].map((address) => ({ type: 'InternalIP', address })) },
    })),
    ...balanced('web', 30, { ports: [{ port: 80, nodePort: NODE_PORT }] }),
    ...balanced('local', 31, { externalTrafficPolicy: 'Local', healthCheckNodePort: HEALTH_CHECK_PORT }),
    ...balanced('proxied', 32, {}, 'Proxy'),
  ];
}

export class TwoNodes {
  readonly lab: Lab;
  readonly nodes: Readonly<Record<NodeName, ManifestNode>>;
  readonly ports: Readonly<Record<NodeName | 'client', ArpPort>>;

  static async create(): Promise<TwoNodes> {
    const lab = await Lab.create({ commands: shellCommands, pods: 2, remotePods: 0, signal: NEVER });
    try {
      await lab.serve('pod-1', 'TCP', POD_PORT);
      const node = await ManifestNode.create(lab);
      await node.write('announced', ...announced());
      // Tell the neighbours of a new IPv6 address, as kube-vip does (Documentation/networking/ip-sysctl.rst).
      for (const at of ['node', 'other']) await lab.exec(at, 'sysctl', '-qw', 'net.ipv6.conf.eth0.ndisc_notify=1');
      const [first, second] = [await ArpPort.open(lab, 'node'), await ArpPort.open(lab, 'other')];
      const ports = { node: first, other: second, client: await ArpPort.open(lab, 'client', 'lan0') };
      return new TwoNodes(lab, { node, other: node.beside('other') }, ports);
    } catch (error) {
      await lab.remove();
      throw error;
    }
  }

  private constructor(lab: Lab, nodes: TwoNodes['nodes'], ports: TwoNodes['ports']) {
    this.lab = lab;
    this.nodes = nodes;
    this.ports = ports;
  }

  /** An agent that has written everything. */
  async start(at: NodeName, ...flags: string[]): Promise<AgentProcess> {
    const agent = this.nodes[at].start('--cluster-cidr', CIDRS, ...flags);
    await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
    return agent;
  }

  /** Where the client's connection to the address came through, or how it ended. */
  async through(address: string, port = 80): Promise<string> {
    const said = await this.lab.ask('client', { address, port, timeout: PATIENCE });
    if (said.outcome !== 'reply') return said.outcome;
    return SEEN[said.seen] ?? `${said.by} ${said.seen}`;
  }

  /** Who answers the client's question for an address, once so many did: names of nodes, sorted. */
  async whoHas(address: string, atLeast = 1): Promise<string[]> {
    const { client, node, other } = this.ports;
    const macs = await client.whoHas(address, LAB.client.v4, atLeast);
    return macs.map((mac) => (mac === node.mac ? 'node' : mac === other.mac ? 'other' : mac)).sort();
  }

  /** Give a node's own device an address, as kube-vip does, and announce it. */
  async bind(at: NodeName, address: string): Promise<void> {
    await this.#address('add', at, address);
    if (!address.includes(':')) this.ports[at].announce(address);
  }

  async unbind(at: NodeName, address: string): Promise<void> {
    await this.#address('delete', at, address);
  }

  async remove(): Promise<void> {
    for (const port of Object.values(this.ports)) port.close();
    await this.nodes.other.stop();
    await this.nodes.node.clear();
    await this.lab.remove();
  }

  async #address(what: 'add' | 'delete', at: NodeName, address: string): Promise<void> {
    const isV6 = address.includes(':');
    const words = isV6 ? ['-6', 'address', what, `${address}/128`] : ['address', what, `${address}/32`];
    // Deprecated: the node answers by it, and does not choose it as a source (RFC 6724, rule 3), also not to masquerade to.
    const deprecated = isV6 && what === 'add' ? ['preferred_lft', '0'] : [];
    await this.lab.exec(at, 'ip', ...words, 'dev', 'eth0', ...deprecated);
  }
}
