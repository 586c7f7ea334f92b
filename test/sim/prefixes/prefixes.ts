/**
 * The way of a mode from one state of Services to another, cut after each write that the kernel sees as one. At each cut what becomes of a
 * packet must be what became of it before, or what becomes of it afterwards.
 */
import assert from 'node:assert/strict';
import type { Address, Family } from '../../../src/base/address.ts';
import type { Packet } from '../../../src/inspect/explain/packet.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { nodeOf } from '../../helpers/cluster/objects.ts';
import { becomeOf, fatesText, viewsIn } from '../check/kernel-views.ts';
import { INTERFACES, type ModeWorld, modeWorld, SENDERS } from '../check/mode-world.ts';
import { packetsTo, type Sender } from '../check/packets.ts';
import { Walks } from '../check/walks.ts';
import { FRONTENDS, objectsOf, type State, stateText } from './states.ts';

/** What a packet met at a cut that is neither of before nor of afterwards. */
export interface Breach {
  readonly mode: ModeName;
  readonly before: string;
  readonly after: string;
  readonly packet: string;
  readonly was: string;
  readonly is: string;
  readonly becomes: string;
  /** Which write, and of how many. */
  readonly cut: number;
  readonly cuts: number;
}

interface Watched {
  readonly name: string;
  readonly family: Family;
  readonly packet: Packet;
}

/** A sender that may be an endpoint itself. */
const ENDPOINT: Sender = {
  name: 'endpoint',
  source: { IPv4: '10.244.1.1' as Address, IPv6: 'fd00:244:1::1' as Address },
  device: 'cni0',
};
const LOCAL: Readonly<Record<Family, ReadonlySet<string>>> = {
  IPv4: new Set(INTERFACES.filter((one) => !one.includes(':'))),
  IPv6: new Set(INTERFACES.filter((one) => one.includes(':'))),
};

const PACKETS: readonly Watched[] = (() => {
  const senders = [...SENDERS, ENDPOINT];
  const to = (family: Family, address: Address | undefined, port: number) =>
    packetsTo({ family, protocol: 'TCP', address, port }, senders, LOCAL[family]).map(({ name, packet }) => ({
      name,
      packet,
      family,
    }));
  return [
    ...FRONTENDS.addresses.flatMap((address) =>
      FRONTENDS.ports.flatMap((port) => to(address.includes(':') ? 'IPv6' : 'IPv4', address as Address, port)),
    ),
    ...FRONTENDS.nodePorts.flatMap((port) =>
      (['IPv4', 'IPv6'] as const).flatMap((family) => to(family, undefined, port)),
    ),
  ];
})();

export class PrefixWorld {
  readonly mode: ModeName;
  readonly #world: ModeWorld;
  readonly #walks = new Walks();
  /** Outcomes by packet, at each commit of the present sync. */
  #cuts: (readonly string[])[] = [];
  #state: State | undefined;
  #before: readonly string[] = [];
  cuts = 0;

  constructor(mode: ModeName) {
    this.mode = mode;
    this.#world = modeWorld(mode, () => this.#cuts.push(this.#look()));
    this.#world.rig.put(nodeOf('a'));
  }

  /** Goes to this state; returns what was wrong on the way. */
  async go(state: State): Promise<Breach[]> {
    const { put, absent } = objectsOf(state);
    const { rig } = this.#world;
    rig.put(...put);
    for (const name of absent.services) rig.remove('Service', `default/${name}`);
    for (const name of absent.slices) rig.remove('EndpointSlice', `default/${name}`);
    this.#cuts = [];
    const report = await rig.sync();
    assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
    const after = this.#look();
    const breaches = this.#state === undefined ? [] : this.#breaches(this.#state, state, after);
    this.cuts += this.#cuts.length;
    this.#state = state;
    this.#before = after;
    return breaches;
  }

  #breaches(before: State, after: State, last: readonly string[]): Breach[] {
    const found: Breach[] = [];
    for (const [i, { name }] of PACKETS.entries()) {
      const [was = '', becomes = ''] = [this.#before[i], last[i]];
      const allowed = new Set([...was.split(', '), ...becomes.split(', ')]);
      for (const [cut, outcomes] of this.#cuts.entries()) {
        const is = outcomes[i] ?? '';
        if (is === was || is === becomes || is.split(', ').every((one) => allowed.has(one))) continue;
        const texts = { before: stateText(before), after: stateText(after) };
        found.push({
          mode: this.mode,
          ...texts,
          packet: name,
          was,
          is,
          becomes,
          cut: cut + 1,
          cuts: this.#cuts.length,
        });
        break;
      }
    }
    return found;
  }

  /** Each packet's outcome now: the different fates, without their shares. */
  #look(): string[] {
    this.#walks.begin();
    const views = { IPv4: viewsIn(this.#world.views('IPv4')), IPv6: viewsIn(this.#world.views('IPv6')) };
    return PACKETS.map(({ packet, family }) => {
      const facts = { localAddresses: LOCAL[family], remembered: NOTHING };
      const { fates } = becomeOf(views[family], packet, facts, this.#walks.walk);
      return fatesText(fates.map((fate) => ({ ...fate, probability: 1 })));
    });
  }
}

const NOTHING: ReadonlySet<string> = new Set();
