/** IPVS mode: virtual servers, their addresses on a dummy device, sets, and rules that refer to the sets (docs/ipvs.md). */
import type { ChainProbe } from '../../host/chain-probe.ts';
import type { IptablesTools } from '../../host/iptables-tools.ts';
import { familiesMode, type PortChanges } from '../families.ts';
import type { FamilyInspection } from '../inspection.ts';
import type { Mode } from '../mode.ts';
import { FamilyRules } from '../netfilter/family-rules.ts';
import { OwnWrites } from '../netfilter/standing.ts';
import { serversInspection } from '../virtual-servers/inspect.ts';
import { IpvsNode, type NodeOptions } from '../virtual-servers/node.ts';
import type { HostAddresses } from '../virtual-servers/observe.ts';
import { PredecessorServers, ServersFamily } from '../virtual-servers/servers-family.ts';
import { isOursOrSource } from '../virtual-servers/source-chain.ts';
import { IpvsDesired } from './desire.ts';
import { JUMPS } from './jumps.ts';
import type { IpvsSettings } from './settings.ts';

export interface IpvsFamilyOptions {
  readonly settings: IpvsSettings;
  readonly tools: IptablesTools;
  /** Checks the canaries instead of the tools, and whether another program wrote since the last reading. */
  readonly probe?: ChainProbe | undefined;
  /** Rules that are written anew keep the counters of their frontends. */
  readonly keepsCounts?: boolean | undefined;
}

export interface IpvsOptions extends Omit<NodeOptions, 'predecessor'> {
  /** One entry for each family that the node has. */
  readonly families: readonly IpvsFamilyOptions[];
}

export function ipvsMode(options: IpvsOptions): Mode {
  const own = new OwnWrites();
  const node = new IpvsNode(options);
  const families = options.families.map((family) => new IpvsFamily(family, own, node));
  return familiesMode({ name: 'ipvs', readsApart: false, families, node });
}

class IpvsFamily extends ServersFamily {
  readonly inspection: FamilyInspection;
  readonly #desired: IpvsDesired;

  constructor({ settings, tools, probe, keepsCounts }: IpvsFamilyOptions, own: OwnWrites, node: IpvsNode) {
    super(settings, new FamilyRules({ tools, probe, own, keepsCounts, isOurs: isOursOrSource, jumps: JUMPS }), node);
    this.#desired = new IpvsDesired(settings);
    this.state.desireSets();
    this.inspection = serversInspection({ state: this.state, kernel: node.kernel });
  }

  override desire(changes: PortChanges): void {
    this.state.desire(this.#desired.update(changes));
  }

  protected override onHost(host: HostAddresses): void {
    this.state.desire(this.#desired.hostHas(host));
  }
}

/** The predecessor in IPVS mode, ours or kube-proxy's. It desires nothing: all of it is removed. */
export function ipvsPredecessor({ families, kernel, sysctls }: Omit<IpvsOptions, 'node' | 'wantedSettings'>): Mode {
  const own = new OwnWrites();
  const members: PredecessorServers[] = [];
  const areEmptied = () => members.every(({ state }) => state.isEmptied && state.sets.applied?.size === 0);
  const node = new IpvsNode({ kernel, sysctls, predecessor: { areEmptied } });
  for (const { settings, ...each } of families) members.push(new PredecessorServers(settings, { ...each, own }, node));
  return familiesMode({ name: 'ipvs', readsApart: false, families: members, node });
}
