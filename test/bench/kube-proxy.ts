/**
 * The real kube-proxy in the node's namespace, beside `AgentProcess`: a binary that the user names (`--kube-proxy PATH`), with
 * the configuration that the agent has (the same node, cluster CIDR and settings of conntrack).
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { type Child, realCommands, startChild } from '../../src/kernel/commands.ts';
import { InsideProcess } from './inside.ts';
import type { KubeProxyAnswer, KubeProxyCommand } from './kube-proxy-protocol.ts';

const PROGRAM = fileURLToPath(new URL('./kube-proxy-inside.ts', import.meta.url));
const NEVER = new AbortController().signal;
/** Lines of its log that an error shows. */
const LAST_LINES = 20;

export interface KubeProxyOptions {
  readonly lab: Lab;
  /** Path of the binary. */
  readonly file: string;
  readonly kubeconfig: string;
  readonly mode: 'iptables' | 'ipvs' | 'nftables';
  /** The name of its Node; default: the one of the benchmarks. */
  readonly node?: string;
  /** Go's text of a duration. kube-proxy takes 0 for its default, one second. */
  readonly minSyncPeriod?: string;
  /** Fields of KubeProxyConfiguration in the place of those of the agent. */
  readonly fields?: Readonly<Record<string, unknown>>;
}

interface StartOptions {
  /** Milliseconds. */
  readonly within: number;
  readonly meanwhile?: (pid: number) => void;
  /** Resolves after the first sync, for versions whose metrics do not tell that of each family. */
  readonly synced?: () => Promise<void>;
}

export class KubeProxy {
  readonly pid: number;
  /** Milliseconds from exec to the end of the first sync of all families, by kube-proxy's own metric. */
  readonly milliseconds: number;
  readonly #child: Child;
  readonly #watch: InsideProcess<KubeProxyCommand, KubeProxyAnswer, never>;
  readonly #folder: string;

  /** Resolves after its first sync; throws when there is none within the milliseconds. `meanwhile` is told its process id at once. */
  static async start(
    options: KubeProxyOptions,
    { within, meanwhile = () => undefined, synced }: StartOptions,
  ): Promise<KubeProxy> {
    const { lab, file } = options;
    const folder = await mkdtemp(join(tmpdir(), 'kube-proxy-'));
    const config = join(folder, 'config.json');
    await writeFile(config, JSON.stringify(configOf(options)));
    const watch = new InsideProcess<KubeProxyCommand, KubeProxyAnswer, never>({
      ...{ lab, namespace: 'node', program: PROGRAM },
    });
    const log: string[] = [];
    let child: Child | undefined;
    try {
      await watch.ask({ kind: 'ready' });
      const { file: ip, args } = lab.inside('node', file, ['--config', config, '--v=0']);
      const since = Date.now();
      child = startChild({ file: ip, args, onErrorLine: (line) => void log.push(line) });
      const { pid } = child;
      if (pid === undefined) throw new Error(`${file} was not started`);
      meanwhile(pid);
      const ended = child.ended.then((status) => {
        throw new Error(`${file} ended with status ${status}`);
      });
      const first =
        synced === undefined ? watch.ask({ kind: 'synced', within }) : synced().then(() => ({ syncedAt: Date.now() }));
      const { syncedAt } = await Promise.race([first, ended]);
      ended.catch(() => undefined);
      return new KubeProxy({ child, pid, watch, folder, milliseconds: syncedAt - since });
    } catch (error) {
      await Promise.all([child?.stop(), watch.stop()]);
      await rm(folder, { recursive: true, force: true });
      throw new Error([String(error), ...log.slice(-LAST_LINES)].join('\n'));
    }
  }

  private constructor(parts: {
    readonly child: Child;
    readonly pid: number;
    readonly watch: InsideProcess<KubeProxyCommand, KubeProxyAnswer, never>;
    readonly folder: string;
    readonly milliseconds: number;
  }) {
    ({ child: this.#child, pid: this.pid, watch: this.#watch, folder: this.#folder } = parts);
    this.milliseconds = parts.milliseconds;
  }

  /** Number of syncs so far, both families, and the seconds that they took together. */
  async syncs(): Promise<{ count: number; seconds: number }> {
    const { count, seconds } = await this.#watch.ask({ kind: 'syncs' });
    return { count, seconds };
  }

  async stop(): Promise<void> {
    await this.#child.stop();
    await this.#watch.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** `v1.36.2` */
export async function kubeProxyVersion(file: string): Promise<string> {
  const { stdout, stderr, exitCode } = await realCommands.run({ file, args: ['--version'] }, NEVER);
  const version = /^Kubernetes (v\S+)/.exec(stdout)?.[1];
  if (exitCode !== 0 || version === undefined) {
    throw new Error(`${file} --version does not say "Kubernetes v…", as kube-proxy does: ${stdout || stderr}`);
  }
  return version;
}

/** Settings of the machine's kernel are left alone: none of them is this namespace's. */
function configOf({ kubeconfig, mode, node = 'node-0', minSyncPeriod = '1s', fields }: KubeProxyOptions): object {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode,
    clientConnection: { kubeconfig },
    hostnameOverride: node,
    clusterCIDR: '10.128.0.0/9',
    healthzBindAddress: '127.0.0.1:10256',
    metricsBindAddress: '127.0.0.1:10249',
    // IPVS mode knows no primary addresses.
    nodePortAddresses: mode === 'ipvs' ? [] : ['primary'],
    [mode]: { minSyncPeriod },
    oomScoreAdj: 0,
    conntrack: {
      ...{ maxPerCore: 0, min: 0 },
      ...{ tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s', udpTimeout: '0s', udpStreamTimeout: '0s' },
    },
    ...fields,
  };
}
