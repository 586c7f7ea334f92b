/** nftables mode: cold start beside `nft -f` of the same state and beside kube-proxy's layout, one change, new connections. */
import { kubeProxyTable } from '../netns/kube-proxy-table.ts';
import { AgentStarts, type StartsResult } from './agent-starts.ts';
import { type ChangeResult, measureChange } from './change.ts';
import type { ClusterShape } from './cluster.ts';
import { type ConnectionsResult, measureConnections } from './connections.ts';
import { proxiedServices } from './rival.ts';
import { Trial } from './trial.ts';

export interface NftablesOptions {
  readonly starts: readonly NftablesStartOptions[];
  readonly changes: readonly ClusterShape[];
  /** How often each. */
  readonly changed: number;
  /** Numbers of Services. */
  readonly connections: readonly number[];
}

export interface NftablesStartOptions {
  readonly shape: ClusterShape;
  readonly runs: number;
  /** Whether kube-proxy's layout is loaded as well, as `nft -f` does it: it takes minutes. */
  readonly hasRival: boolean;
  /** Seconds at rest that are watched; 0: none. */
  readonly rest: number;
  /** The lists are JSON, as where the API server has no protobuf. */
  readonly asJson: boolean;
}

export interface NftablesStart extends StartsResult {
  readonly shape: ClusterShape;
  readonly asJson: boolean;
  readonly elements: number;
  readonly chains: number;
  /** Milliseconds of each run. */
  readonly floor: readonly number[];
  readonly rival: readonly number[];
  /** One chain and one rule more in kube-proxy's layout. */
  readonly rivalChange: readonly number[];
}

export interface NftablesResult {
  readonly starts: readonly NftablesStart[];
  readonly change: readonly ChangeResult[];
  readonly connections: readonly ConnectionsResult[];
}

/** Nothing of it is out of the ordinary. */
export const isPlain = ({ shape, asJson }: NftablesStart): boolean =>
  shape.affinity === undefined && shape.nodePorts === undefined && !asJson;

const RIVAL_CHANGES = 15;

export async function measureNftables(options: NftablesOptions): Promise<NftablesResult> {
  const starts: NftablesStart[] = [];
  for (const one of options.starts) starts.push(await measureStart(one));
  const change: ChangeResult[] = [];
  for (const shape of options.changes) {
    change.push(await measureChange({ shape, changes: options.changed, mode: 'nftables' }));
  }
  const connections: ConnectionsResult[] = [];
  for (const services of options.connections) connections.push(await measureConnections(services, 'nftables'));
  return { starts, change, connections };
}

async function measureStart({ shape, runs, hasRival, rest, asJson }: NftablesStartOptions): Promise<NftablesStart> {
  process.stdout.write(`  nftables ${JSON.stringify(shape)}${asJson ? ', JSON' : ''}\n`);
  const flags = asJson ? ['--kube-api-content-type', 'application/json'] : [];
  return await Trial.of({ shape, mode: 'nftables', flags }, async (trial) => {
    const starts = new AgentStarts(trial);
    const floor: number[] = [];
    let text = '';
    for (let i = 1; i <= runs; i++) {
      await trial.empty('node');
      await starts.once(i === runs ? rest : 0);
      text = await tableText(trial);
      await trial.empty('other');
      floor.push(await trial.nft(text));
    }
    const rival = hasRival ? await measureRival(trial) : { load: [], change: [] };
    const elements = text.split('\n').filter((line) => /^\t\t\s+\S.*,$|^\t\telements = /.test(line)).length;
    const chains = text.split('\n').filter((line) => line.startsWith('\tchain ')).length;
    return { shape, asJson, elements, chains, floor, rival: rival.load, rivalChange: rival.change, ...starts.result };
  });
}

/** Milliseconds: `nft -f` of all of it, and of one chain and one rule more. */
export interface RivalMeasured {
  readonly load: readonly number[];
  readonly change: readonly number[];
}

/** kube-proxy's layout of the same Services, in a namespace that has nothing else. */
export async function measureRival(trial: Trial): Promise<RivalMeasured> {
  await trial.empty('other');
  const load = [await trial.nft(kubeProxyTable(proxiedServices(trial.shape)))];
  const change: number[] = [];
  for (let i = 0; i < RIVAL_CHANGES; i++) {
    const chain = `ip kube-proxy endpoint-bench-${i}`;
    change.push(await trial.nft(`add chain ${chain}\nadd rule ${chain} meta l4proto tcp dnat to 10.255.0.1:80\n`));
  }
  await trial.empty('other');
  return { load, change };
}

/** slicewire's table as the node's kernel has it, for `nft -f`. */
export async function tableText({ lab }: Trial): Promise<string> {
  return loadable(await lab.exec('node', 'nft', 'list', 'table', 'ip', 'slicewire'));
}

/** The types of keys as `nft` reads them: what it prints of a number within a key, it does not take back. */
function loadable(listed: string): string {
  const data = 'numgen random mod 65536 : ip daddr . th dport';
  return listed
    .replace(
      'type ipv4_addr . inet_proto . inet_service . mark : ipv4_addr . inet_service',
      `typeof ip daddr . meta l4proto . th dport . ${data}`,
    )
    .replace(
      'type inet_proto . inet_service . mark : ipv4_addr . inet_service',
      `typeof meta l4proto . th dport . ${data}`,
    );
}
