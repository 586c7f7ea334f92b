/** The conformance stories told by a real kube-proxy: the same objects and the same packets as in slicewire's own tests. */
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Family } from '../../src/base/address.ts';
import type { Lab } from '../../src/cli/lab/lab.ts';
import type { ModeName } from '../../src/proxy/model/modes.ts';
import type { LocalDetector } from '../../src/proxy/modes/netfilter/local-traffic.ts';
import { KubeProxy } from '../bench/kube-proxy.ts';
import { cluster } from '../conformance/cluster.ts';
import { IPTABLES } from '../conformance/iptables.ts';
import { IPVS } from '../conformance/ipvs.ts';
import { NFTABLES } from '../conformance/nftables.ts';
import type { StoryCase, StoryState } from '../conformance/story.ts';
import type { ModeUnderTest } from '../conformance/suite.ts';
import { TcpRelay } from '../helpers/cli/lab/tcp-relay.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { nodeOf } from '../helpers/cluster/objects.ts';
import { type Patience, type RealStory, realStories, sendPackets, storyLab } from '../netns/story-packets.ts';
import { withDefaults } from '../vm/rival-node.ts';

/** Of slicewire, whose stories a mode has. */
export const MODES_UNDER_TEST: Readonly<Record<ModeName, ModeUnderTest>> = {
  iptables: IPTABLES,
  nftables: NFTABLES,
  ipvs: IPVS,
};

/** What became of a story. */
export interface StoryResult {
  readonly id: string;
  readonly family: Family;
  /** The first packet that ended otherwise than the story says; undefined for none. */
  readonly differs: string | undefined;
}

export interface RivalOptions {
  /** Path of kube-proxy. */
  readonly file: string;
  readonly mode: ModeName;
  readonly patience: Patience;
  /** Least requests to the backends of a packet: those of a story are not all that kube-proxy may lead to. */
  readonly requests: number;
  /** Milliseconds until a sync, where one comes. */
  readonly sync: number;
}

/** Stories that share settings come one after another: a process has its settings for good. */
export function rivalStories(mode: ModeName): RealStory[] {
  const keyOf = ({ story, family }: RealStory) => fieldsKey(mode, family, story.tell(cluster(family)));
  const bySettings = Map.groupBy(realStories(MODES_UNDER_TEST[mode]), keyOf);
  return [...bySettings.values()].flat();
}

/** Milliseconds between two looks at kube-proxy's syncs. */
const LOOK = 100;
/** Milliseconds without a sync after which a new process has settled. */
const SETTLED = 500;
/** Times the last sync: without a further one for as long, none is under way. */
const QUIET = 2;

type Syncs = Awaited<ReturnType<KubeProxy['syncs']>>;

interface Running {
  readonly proxy: KubeProxy;
  /** Milliseconds of its last sync. */
  usual: number;
  /** Of its settings. */
  readonly key: string;
}

export class StoryNode {
  readonly #options: RivalOptions;
  readonly #lab: Lab;
  readonly #api: ApiServer;
  readonly #relay: TcpRelay;
  readonly #kubeconfig: string;
  readonly #objects = new Map<string, object>();
  #node: object | undefined;
  #running: Running | undefined;

  static async create(options: RivalOptions): Promise<StoryNode> {
    const lab = await storyLab();
    const api = await ApiServer.start();
    const relay = await TcpRelay.from(lab.namespace('node'), Number(new URL(api.url).port));
    return new StoryNode(options, { lab, api, relay, kubeconfig: await api.kubeconfig() });
  }

  private constructor(options: RivalOptions, parts: { lab: Lab; api: ApiServer; relay: TcpRelay; kubeconfig: string }) {
    this.#options = options;
    this.#lab = parts.lab;
    this.#api = parts.api;
    this.#relay = parts.relay;
    this.#kubeconfig = parts.kubeconfig;
  }

  async remove(): Promise<void> {
    await this.#stop();
    await this.#relay.stop();
    await this.#api.stop();
    await this.#lab.remove();
  }

  /** Throws what is no answer of a packet, such as a kube-proxy that does not start. */
  async tell({ story, family }: RealStory): Promise<StoryResult> {
    const { mode, patience, requests } = this.#options;
    const under = MODES_UNDER_TEST[mode];
    const ip = family === 'IPv4' ? 'iptables' : 'ip6tables';
    const sending = { tool: () => `${ip}-nft`, patience, requests, unserved: under.unserved, drains: mode === 'ipvs' };
    try {
      await sendPackets(this.#lab, sending, { story, family }, async (first) => {
        await this.#run(family, first);
        return { reach: async (state) => void (await this.#reach(family, state)) };
      });
      return { id: story.id, family, differs: undefined };
    } catch (error) {
      if (!(error instanceof Error) || error.name !== 'AssertionError') throw error;
      await this.#forget(family);
      const [line = ''] = error.message.split('\n');
      return { id: story.id, family, differs: line };
    }
  }

  /** Objects of a story that ended early may be such as an API server refuses: kube-proxy then hears no more, and no other one starts over them. */
  async #forget(family: Family): Promise<void> {
    const isHeard = this.#running !== undefined && (await this.#reach(family, { objects: [], packets: [] }));
    if (!isHeard) await this.#stop();
    for (const id of this.#objects.keys()) this.#delete(id);
  }

  /** A kube-proxy with the settings of the story. */
  async #run(family: Family, story: StoryCase): Promise<void> {
    const { mode, file, sync } = this.#options;
    const key = fieldsKey(mode, family, story);
    if (this.#running?.key === key) return;
    await this.#stop();
    this.#putNode(family, undefined);
    const fields = fieldsOf(mode, family, story);
    const started = { lab: this.#lab, file, kubeconfig: this.#kubeconfig, mode, node: 'node', fields };
    const running = { key, usual: 0, proxy: await KubeProxy.start(started, { within: 20 * sync }) };
    this.#running = running;
    await this.#settled(running);
  }

  /** A new process syncs several times, by the objects before: none of these may be taken for the sync of the story. */
  async #settled({ proxy }: Running): Promise<void> {
    let last = await proxy.syncs();
    const late = performance.now() + 20 * this.#options.sync;
    for (let quiet = 0; quiet < SETTLED; ) {
      await pause(LOOK);
      const now = await proxy.syncs();
      quiet = now.count === last.count ? quiet + LOOK : 0;
      last = now;
      if (performance.now() > late) throw new Error('kube-proxy syncs all the time');
    }
  }

  async #stop(): Promise<void> {
    await this.#running?.proxy.stop();
    this.#running = undefined;
  }

  /** Resolves with whether kube-proxy synced, or had nothing to write. */
  async #reach(family: Family, { objects, zone }: StoryState): Promise<boolean> {
    const running = this.#running ?? fail();
    const before = await running.proxy.syncs();
    const nodes = this.#putNode(family, zone);
    const now = new Map(objects.map((object) => [idOf(object), withDefaults(object)]));
    const gone = [...this.#objects.keys()].filter((id) => !now.has(id));
    for (const id of gone) this.#delete(id);
    const changed = [...now].filter(([id, object]) => !isDeepStrictEqual(this.#objects.get(id), object));
    for (const [id, object] of changed) {
      this.#objects.set(id, object);
      this.#api.put(object);
    }
    if (nodes + gone.length + changed.length === 0) return true;
    return await this.#synced(running, before);
  }

  #delete(id: string): void {
    const [kind = '', key = ''] = id.split(' ');
    this.#api.delete(kind, key);
    this.#objects.delete(id);
  }

  /** Until a sync came and no other one follows. An object that kube-proxy does not serve brings none: false. */
  async #synced(running: Running, before: Syncs): Promise<boolean> {
    const late = performance.now() + this.#options.sync;
    let last = before;
    let since = performance.now();
    for (;;) {
      await pause(LOOK);
      const syncs = await running.proxy.syncs();
      const now = performance.now();
      if (syncs.count !== last.count) {
        const mean = (1000 * (syncs.seconds - last.seconds)) / (syncs.count - last.count);
        running.usual = mean;
        since = now;
      }
      last = syncs;
      if (last.count > before.count && now - since > LOOK + QUIET * running.usual) return true;
      if (last.count === before.count && now > late) return false;
    }
  }

  /** Returns how many Nodes changed. */
  #putNode(family: Family, zone: string | undefined): 0 | 1 {
    const own = cluster(family).node;
    const other = cluster(family === 'IPv4' ? 'IPv6' : 'IPv4').node;
    const addresses = [own, other].map((address) => ({ type: 'InternalIP', address }));
    const node = { ...nodeOf(zone), status: { addresses } };
    if (isDeepStrictEqual(this.#node, node)) return 0;
    this.#node = node;
    this.#api.put(node);
    return 1;
  }
}

function fail(): never {
  throw new Error('no kube-proxy runs');
}

function idOf(object: object): string {
  const { kind, metadata } = object as { kind: string; metadata: { name: string; namespace?: string } };
  const { name, namespace } = metadata;
  return `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}

function fieldsKey(mode: ModeName, family: Family, story: StoryCase): string {
  return JSON.stringify([family, fieldsOf(mode, family, story)]);
}

const NO_CONNTRACK = {
  ...{ maxPerCore: 0, min: 0 },
  ...{ tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s', udpTimeout: '0s', udpStreamTimeout: '0s' },
};

/** The settings of a story as fields of KubeProxyConfiguration. */
function fieldsOf(mode: ModeName, family: Family, story: StoryCase): Record<string, unknown> {
  const { settings = {}, servesExternalIPs = true } = story;
  const { masqueradeAll = false, masqueradeBit = 14, nodePortAddresses = 'all', dropInvalid = true } = settings;
  const { localDetector = { kind: 'none' }, localhostNodePorts = family === 'IPv4' } = settings;
  const bits = family === 'IPv4' ? 32 : 128;
  const masquerading = { masqueradeAll, masqueradeBit, minSyncPeriod: '50ms' };
  return {
    ...detecting(localDetector),
    // In nftables mode an empty list means the primary addresses.
    nodePortAddresses:
      nodePortAddresses !== 'all'
        ? nodePortAddresses.map((address) => `${address}/${bits}`)
        : mode === 'nftables'
          ? ['0.0.0.0/0', '::/0']
          : [],
    iptables: { ...masquerading, localhostNodePorts },
    nftables: masquerading,
    ipvs: { minSyncPeriod: '50ms' },
    featureGates: { AllowServiceExternalIPs: servesExternalIPs },
    conntrack: { ...NO_CONNTRACK, tcpBeLiberal: !dropInvalid },
  };
}

function detecting(detector: LocalDetector): Record<string, unknown> {
  if (detector.kind === 'cidr') return { detectLocalMode: 'ClusterCIDR', clusterCIDR: detector.cidr };
  if (detector.kind === 'none') return { clusterCIDR: '' };
  const { name } = detector;
  const none = { clusterCIDR: '' };
  return name.endsWith('+')
    ? { ...none, detectLocalMode: 'InterfaceNamePrefix', detectLocal: { interfaceNamePrefix: name.slice(0, -1) } }
    : { ...none, detectLocalMode: 'BridgeInterface', detectLocal: { bridgeInterface: name } };
}
