/** kube-proxy's layouts of a made-up cluster, loaded as text by the bare tool. */
import type { ProxiedService } from '../netns/kube-proxy-rules.ts';
import { kubeProxyTable } from '../netns/kube-proxy-table.ts';
import { type ClusterShape, clusterIP, endpointsOf, serviceKey, TARGET_PORT } from './cluster.ts';
import type { Trial } from './trial.ts';

const CHANGES = 15;

/** The Services of a made-up cluster, for what writes them in kube-proxy's layouts. */
export function proxiedServices(shape: ClusterShape): ProxiedService[] {
  return Array.from({ length: shape.services }, (_, n) => ({
    id: `${serviceKey(shape, n)}:http`,
    clusterIP: clusterIP(n),
    port: 80,
    endpoints: endpointsOf(shape, n).map(({ addresses }) => `${addresses[0]}:${TARGET_PORT}`),
  }));
}

/** Milliseconds of `nft -f`: of the whole layout, and of each chain with one rule more. */
export interface LayoutMeasured {
  readonly load: readonly number[];
  readonly change: readonly number[];
}

/** kube-proxy's nftables layout of the same Services, in a namespace that has nothing else. */
export async function measureLayout(trial: Trial): Promise<LayoutMeasured> {
  await trial.empty('other');
  const load = [await trial.nft(kubeProxyTable(proxiedServices(trial.shape)))];
  const change: number[] = [];
  for (let i = 0; i < CHANGES; i++) {
    const chain = `ip kube-proxy endpoint-bench-${i}`;
    change.push(await trial.nft(`add chain ${chain}\nadd rule ${chain} meta l4proto tcp dnat to 10.255.0.1:80\n`));
  }
  await trial.empty('other');
  return { load, change };
}
