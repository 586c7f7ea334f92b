/** The chains of a Service with ClientIP affinity: each endpoint has one, which remembers its clients. Pure. */
import { addressBytes, portBytes } from '../../../base/address.ts';
import type { Backend, Frontend, ServicePort } from '../../model/service-port.ts';
import { protocolByte } from '../nft-table/element-bytes.ts';
import type { NftChain } from '../nft-table/layout.ts';
import { localPolicyRules, stickyEndpoint, stickyEntry, stickyList } from './balancers.ts';
import { memorySet, stickyId } from './names.ts';
import type { NftablesSettings } from './settings.ts';

export interface StickyChains {
  readonly chains: ReadonlyMap<string, NftChain>;
  /** Names of the memories. */
  readonly memories: readonly string[];
  /** The chain of a frontend; undefined: it has no endpoint. */
  readonly chainOf: (frontend: Frontend) => string | undefined;
}

export function stickyChains(port: ServicePort, settings: NftablesSettings): StickyChains {
  const id = stickyId(port.id, port.protocol.toLowerCase());
  const chains = new Map<string, NftChain>();
  const memories = new Set<string>();
  const protocol = protocolByte(port.protocol);
  const member = (backend: Backend) => {
    const own = stickyId(port.id, port.protocol.toLowerCase(), backend.text);
    const [chain, memory] = [`endpoint-${own}`, memorySet(own).name];
    const target = { address: addressBytes(backend.address), protocol, port: portBytes(backend.port) };
    chains.set(chain, stickyEndpoint(memory, port.affinitySeconds, target));
    memories.add(memory);
    return { chain, memory };
  };
  const list = (name: string, backends: readonly Backend[]): string | undefined => {
    if (backends.length === 0) return undefined;
    chains.set(name, stickyList(backends.map(member)));
    return name;
  };
  const [all, here] = [list(`sticky-${id}`, port.cluster), list(`sticky-here-${id}`, port.local)];
  const entry = (kind: 'cluster-ip' | 'external', to: string | undefined): string | undefined => {
    if (to === undefined) return undefined;
    const name = `${kind}-${to}`;
    chains.set(name, stickyEntry(kind, to, settings));
    return name;
  };
  const chainOf = ({ role, policy }: Frontend): string | undefined => {
    if (role === 'cluster-ip') return entry('cluster-ip', policy === 'Local' ? here : all);
    if (policy === 'Cluster') return entry('external', all);
    if (all === undefined && here === undefined) return undefined;
    const name = `local-policy-${id}`;
    chains.set(name, localPolicyRules({ pods: all, node: entry('external', all), others: here }, settings));
    return name;
  };
  return { chains, memories: [...memories], chainOf };
}
