/** IPVS mode: virtual servers, their addresses on a dummy device, sets, and rules that refer to the sets (docs/ipvs.md). */

import { familyOf } from '../../../base/address.ts';
import type { ChainProbe } from '../../../kernel/chain-probe.ts';
import type { IptablesTools } from '../../../kernel/iptables-tools.ts';
import type { IpvsQuestions } from '../../../kernel/ipvs-kernel.ts';
import { familiesMode, type PortChanges } from '../families.ts';
import type { FamilyInspection } from '../inspection.ts';
import type { ConnectionCount, CounterReading, Mode } from '../mode.ts';
import { OwnWrites } from '../netfilter/change-detection.ts';
import { FamilyRules } from '../netfilter/family-rules.ts';
import { serversInspection } from '../virtual-servers/inspect.ts';
import { IpvsNode, type NodeOptions } from '../virtual-servers/node-parts.ts';
import type { HostAddresses } from '../virtual-servers/observe.ts';
import { PredecessorServers, ServersFamily } from '../virtual-servers/servers-family.ts';
import { isOursOrSource } from '../virtual-servers/source-chain.ts';
import { serverKey } from '../virtual-servers/tracked-objects.ts';
import { IpvsDesired } from './desire.ts';
import { type IpvsSettings, JUMPS } from './static-chains.ts';

export interface IpvsFamilyOptions {
  readonly settings: IpvsSettings;
  readonly tools: IptablesTools;
  /** Checks the canaries in the place of the tools, and detects writes of other programs. */
  readonly probe?: ChainProbe | undefined;
  /** See `TablesOptions`. */
  readonly own?: OwnWrites | undefined;
  /** Rules that are written anew keep the counters of their frontends. */
  readonly keepsCounts?: boolean | undefined;
}

export interface IpvsOptions extends Omit<NodeOptions, 'predecessor'> {
  readonly questions: IpvsQuestions;
  /** One entry for each family that the node has. */
  readonly families: readonly IpvsFamilyOptions[];
}

export function ipvsMode(options: IpvsOptions): Mode {
  const own = new OwnWrites();
  const node = new IpvsNode(options);
  const { questions } = options;
  const families = options.families.map((family) => new IpvsFamily({ own, ...family }, { node, questions }));
  return familiesMode({ name: 'ipvs', readsApart: false, families, node });
}

/** Shared by the families. */
interface FamilyShared {
  readonly node: IpvsNode;
  readonly questions: IpvsQuestions;
}

class IpvsFamily extends ServersFamily {
  readonly inspection: FamilyInspection;
  readonly #desired: IpvsDesired;
  readonly #questions: IpvsQuestions;

  constructor({ settings, tools, probe, own, keepsCounts }: IpvsFamilyOptions, { node, questions }: FamilyShared) {
    super(settings, new FamilyRules({ tools, probe, own, keepsCounts, isOurs: isOursOrSource, jumps: JUMPS }), node);
    this.#desired = new IpvsDesired(settings);
    this.state.desireSets();
    this.#questions = questions;
    this.inspection = serversInspection({ state: this.state, questions });
  }

  override desire(changes: PortChanges): void {
    this.state.desire(this.#desired.update(changes));
  }

  /** Counts of the virtual servers, and of the rules of senders that do not use them. Scrapes call it at any time. */
  override async connectionCounts(look: CounterReading): Promise<readonly ConnectionCount[]> {
    if (!this.isKnown) return [];
    const found = (await super.connectionCounts(look)).map(
      (one) => ({ ...one, isBesideServer: true }) as ConnectionCount,
    );
    for (const { connections: count, bytes, ...server } of await this.#questions.ask((kernel) => kernel.counts())) {
      const service = this.state.servers.desired.get(serverKey(server))?.owner;
      const family = familyOf(server.address);
      if (service !== undefined && family === this.family) found.push({ service, family, ...server, count, bytes });
    }
    return found;
  }

  protected override onHost(host: HostAddresses): void {
    this.state.desire(this.#desired.updateHost(host));
  }
}

/** The predecessor in IPVS mode, ours or kube-proxy's. It desires nothing: all of it is removed. */
export function ipvsPredecessor({
  families,
  kernel,
  sysctls,
  onSetKept,
}: Omit<IpvsOptions, 'node' | 'wantedSettings' | 'questions'>): Mode {
  const own = new OwnWrites();
  const members: PredecessorServers[] = [];
  const areEmptied = () => members.every(({ state }) => state.isEmptied && state.sets.applied?.size === 0);
  const node = new IpvsNode({ kernel, sysctls, onSetKept, predecessor: { areEmptied } });
  for (const { settings, ...each } of families) members.push(new PredecessorServers(settings, { own, ...each }, node));
  return familiesMode({ name: 'ipvs', readsApart: false, families: members, node });
}
