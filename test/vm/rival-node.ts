/** A node whose proxy is kube-proxy or slicewire, one after the other, with the same API server. For tests beside a real kube-proxy. */
import { LAB, Lab } from '../../src/cli/lab/lab.ts';
import { KubeProxy } from '../bench/kube-proxy.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { TcpRelay } from '../helpers/cli/lab/tcp-relay.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

/** Milliseconds: the machine may be emulated, and kube-proxy starts a process for each set and entry. */
export const PATIENCE = 300_000;

export type RivalMode = 'ipvs' | 'iptables';

export interface RivalProxy {
  stop(): Promise<void>;
}

interface HasPorts {
  readonly kind: string;
  readonly spec?: {
    readonly ports: readonly object[];
    readonly clusterIP?: string;
    readonly sessionAffinity?: string;
  };
  readonly ports?: readonly object[];
}

/** The object with the fields that an API server fills in, and kube-proxy relies on. */
export function withDefaults(object: object): object {
  const { kind, spec, ports = [] } = object as HasPorts;
  const tcp = (each: object) => ({ protocol: 'TCP', ...each });
  if (kind === 'EndpointSlice') return { ...object, ports: ports.map(tcp) };
  if (kind !== 'Service' || spec === undefined) return object;
  const policies = { internalTrafficPolicy: 'Cluster', externalTrafficPolicy: 'Cluster', sessionAffinity: 'None' };
  const ipFamilies = [spec.clusterIP?.includes(':') === true ? 'IPv6' : 'IPv4'];
  const families = { clusterIPs: [spec.clusterIP], ipFamilies, ipFamilyPolicy: 'SingleStack' };
  const remembered = { sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } } };
  const affinity = spec.sessionAffinity === 'ClientIP' ? remembered : {};
  const own = { ...policies, ...families, ...affinity, ...spec };
  return { ...object, spec: { type: 'ClusterIP', ...own, ports: spec.ports.map(tcp) } };
}

export class RivalNode {
  readonly lab: Lab;
  readonly #api: ApiServer;
  readonly #relay: TcpRelay;
  readonly #node: ManifestNode;
  readonly #kubeconfig: string;

  static async create(options: { pods: number; remotePods: number }): Promise<RivalNode> {
    const lab = await Lab.create({ ...options, commands: shellCommands, signal: NEVER });
    await lab.exec('node', 'sysctl', '-qw', 'net.ipv4.ip_forward=1');
    const api = await ApiServer.start();
    const kubeconfig = await api.kubeconfig();
    const relay = await TcpRelay.from(lab.namespace('node'), Number(new URL(api.url).port));
    api.put({
      ...{ apiVersion: 'v1', kind: 'Node', metadata: { name: 'node' } },
      status: { addresses: [LAB.node.v4, LAB.node.v6].map((address) => ({ type: 'InternalIP', address })) },
    });
    return new RivalNode({ lab, api, relay, node: await ManifestNode.create(lab), kubeconfig });
  }

  private constructor(parts: { lab: Lab; api: ApiServer; relay: TcpRelay; node: ManifestNode; kubeconfig: string }) {
    this.lab = parts.lab;
    this.#api = parts.api;
    this.#relay = parts.relay;
    this.#node = parts.node;
    this.#kubeconfig = parts.kubeconfig;
  }

  put(...objects: readonly object[]): void {
    for (const object of objects) this.#api.put(withDefaults(object));
  }

  /** Resolves after its first sync. */
  kubeProxy(file: string, mode: RivalMode): Promise<KubeProxy> {
    return KubeProxy.start(
      { lab: this.lab, file, kubeconfig: this.#kubeconfig, mode, node: 'node' },
      { within: PATIENCE },
    );
  }

  /** The same. */
  async slicewire(mode: RivalMode) {
    const agent = this.#node.startFrom(this.#kubeconfig, `--mode=${mode}`, '--cluster-cidr', LAB.clusterCidr.v4);
    await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
    return agent;
  }

  /** Removes what either proxy left in the kernel, while none runs. */
  async cleanup(): Promise<void> {
    await this.#node.stop();
    await this.#node.run('cleanup');
  }

  async remove(): Promise<void> {
    await this.#node.clear();
    await this.#relay.stop();
    await this.#api.stop();
    await this.lab.remove();
  }
}
