/**
 * The way of a mode from one state of Services to another, cut after each write that the kernel sees as one. At each cut a packet must meet
 * the same as before, or the same as afterwards.
 */
import assert from 'node:assert/strict';
import { type Address, FAMILIES, type Family, familyOf } from '../../../src/base/address.ts';
import type { Packet } from '../../../src/inspect/explain/packet.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { nodeOf } from '../../helpers/cluster/objects.ts';
import type { Rig } from '../../helpers/proxy/rig.ts';
import { type Expectation, expected, type OracleInput, roleAmong } from '../../inspect/explain/oracle.ts';
import { becomeOf, fatesText, viewsIn } from '../check/kernel-views.ts';
import {
  INTERFACES,
  type ModeKernels,
  type ModeWorld,
  modeWorld,
  SENDERS,
  takeOver,
  usualSettings,
} from '../check/mode-world.ts';
import { packetsTo, type Sender } from '../check/packets.ts';
import { interfacesOf } from '../check/settings.ts';
import { Walks } from '../check/walks.ts';
import { backendsOf, FRONTENDS, formerBackends, objectsOf, type State, stateText } from './states.ts';

/** A packet that met at a cut neither the state of before nor that of afterwards, where no exception allows it. */
export interface Breach {
  /** `ipvs`, or `iptables to ipvs`. */
  readonly mode: string;
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

/**
 * Exceptions, which a packet may meet between two writes beside the states of before and afterwards:
 *
 * - `unserved`: a packet that no endpoint gets before, or afterwards, may be refused, dropped or left alone in between. The tables of iptables
 *   are written one after the other, and so are the address, the server and the sets of IPVS. Nothing answers such a packet in the one state
 *   or the other.
 * - `masqueraded`: a packet of IPVS mode may be masqueraded in between, and reach an endpoint of before or of afterwards. The mark and the
 *   endpoints of a virtual server are objects of their own; unmasqueraded answers of another node would pass this node by.
 * - `former frontend`: in IPVS mode pods and the node may be led by a former frontend of policy Local to the present endpoints of its Service.
 *   All frontends of a Service have their endpoints in one chain.
 * - `takeover`: while IPVS mode takes over from another mode, or another from it, a frontend that only one of the two serves may be reached by its
 *   virtual server without masquerading and source ranges. The two modes have the rules of the table nat under the same names, so these change
 *   in one moment, and servers are complete before.
 *
 * nftables mode has none of these: a transaction writes the whole of a Service.
 */
export type Exception = 'unserved' | 'masqueraded' | 'former frontend' | 'takeover';

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
  IPv4: new Set(interfacesOf('IPv4', INTERFACES)),
  IPv6: new Set(interfacesOf('IPv6', INTERFACES)),
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
      FRONTENDS.ports.flatMap((port) => to(familyOf(address), address, port)),
    ),
    ...FRONTENDS.nodePorts.flatMap((port) => FAMILIES.flatMap((family) => to(family, undefined, port))),
  ];
})();

export class PrefixWorld {
  readonly exceptions = new Map<Exception, number>();
  #mode: ModeName;
  readonly #kernels: ModeWorld;
  #rig: Rig;
  readonly #walks = new Walks();
  /** Outcomes by packet, at each commit of the present sync. */
  #cuts: (readonly string[])[] = [];
  #state: State | undefined;
  #before: readonly string[] = [];
  cuts = 0;

  /** `onCommit` is called before the packets of a cut are walked. */
  constructor(mode: ModeName, onCommit?: (kernels: ModeKernels) => void) {
    this.#mode = mode;
    this.#kernels = modeWorld(mode, () => {
      onCommit?.(this.#kernels);
      this.#cuts.push(this.#look());
    });
    this.#rig = this.#kernels.rig;
    this.#rig.put(nodeOf('a'));
  }

  /** Goes to this state, perhaps in another mode; returns what was wrong on the way. */
  async go(state: State, mode = this.#mode): Promise<Breach[]> {
    const modes = [...new Set([this.#mode, mode])];
    if (mode !== this.#mode) this.#rig = takeOver(this.#kernels, mode).put(nodeOf('a'));
    this.#mode = mode;
    const { put, absent } = objectsOf(state);
    this.#rig.put(...put);
    for (const name of absent.services) this.#rig.remove('Service', `default/${name}`);
    for (const name of absent.slices) this.#rig.remove('EndpointSlice', `default/${name}`);
    this.#cuts = [];
    await this.#sync();
    const after = this.#look();
    const onTheWay = this.#state === undefined ? [] : this.#breaches(modes, this.#state, state, after);
    const breaches = [...onTheWay, ...this.#wrongAtLast(state, after)];
    this.cuts += this.#cuts.length;
    this.#state = state;
    this.#before = after;
    return breaches;
  }

  async #sync(): Promise<void> {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const report = await this.#rig.sync();
      assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
      if (!this.#rig.mode.isWaiting) return;
    }
  }

  #breaches(modes: readonly ModeName[], before: State, after: State, last: readonly string[]): Breach[] {
    const found: Breach[] = [];
    const texts = { mode: modes.join(' to '), before: stateText(before), after: stateText(after) };
    const former = fatesTo(formerBackends(before, after));
    const endpoints = fatesTo([...before, ...after].flatMap(backendsOf));
    for (const [i, { name }] of PACKETS.entries()) {
      const [was = '', becomes = ''] = [this.#before[i], last[i]];
      const judged = { was, becomes, allowed: new Set(`${was}, ${becomes}`.split(', ')), former, endpoints, modes };
      for (const [cut, outcomes] of this.#cuts.entries()) {
        const is = outcomes[i] ?? '';
        const verdict = judge(is, judged);
        if (verdict === 'right') continue;
        if (verdict !== 'wrong') {
          this.exceptions.set(verdict, (this.exceptions.get(verdict) ?? 0) + 1);
          continue;
        }
        found.push({ ...texts, packet: name, was, is, becomes, cut: cut + 1, cuts: this.#cuts.length });
        break;
      }
    }
    return found;
  }

  /** Packets that do not meet what docs/semantics.md says when all is written, whatever was before. */
  #wrongAtLast(state: State, outcomes: readonly string[]): Breach[] {
    const { model } = this.#rig;
    const texts = { mode: this.#mode, before: 'anything', after: stateText(state), was: '', cut: 0, cuts: 0 };
    const of = (family: Family): OracleInput => ({
      services: {
        ports: [...model.ports.values()].filter((one) => one.family === family),
        frontend: (at) => model.frontend(at),
        roleOf: (address) => roleAmong(model.ports.values(), address),
      },
      mode: usualSettings(this.#mode, family),
      localAddresses: LOCAL[family],
      remembers: () => false,
    });
    const inputs = { IPv4: of('IPv4'), IPv6: of('IPv6') };
    return PACKETS.flatMap(({ name, packet, family }, i) => {
      const becomes = withoutShares(expected(packet, inputs[family]));
      const is = outcomes[i] ?? '';
      return is === becomes ? [] : [{ ...texts, packet: name, is, becomes }];
    });
  }

  /** Each packet's outcome now: the different fates, without their shares. */
  #look(): string[] {
    this.#walks.begin();
    const views = { IPv4: viewsIn(this.#kernels.views('IPv4')), IPv6: viewsIn(this.#kernels.views('IPv6')) };
    return PACKETS.map(({ packet, family }) => {
      const facts = { localAddresses: LOCAL[family], remembered: NOTHING };
      const { fates, isDelivered } = becomeOf(views[family], packet, facts, this.#walks.walk);
      if (!isDelivered && fates.every(({ kind }) => kind === 'balanced')) return 'dropped';
      return withoutShares(fates);
    });
  }
}

function withoutShares(fates: readonly Expectation[]): string {
  return fatesText(fates.map((fate) => ({ ...fate, probability: 1 })));
}

/** Syncs until a predecessor is gone. */
const MAX_ROUNDS = 5;
const NOTHING: ReadonlySet<string> = new Set();

export interface Judged {
  readonly was: string;
  readonly becomes: string;
  /** All fates of both. */
  readonly allowed: ReadonlySet<string>;
  /** Those of a former frontend. */
  readonly former: ReadonlySet<string>;
  /** Those of all endpoints of both states. */
  readonly endpoints: ReadonlySet<string>;
  readonly modes: readonly ModeName[];
}

/** Pure. */
export function judge(
  is: string,
  { was, becomes, allowed, former, endpoints, modes }: Judged,
): Exception | 'right' | 'wrong' {
  if (is === was || is === becomes) return 'right';
  const fates = is.split(', ').filter((one) => !allowed.has(one));
  if (fates.length === 0) return 'right';
  if (modes.every((mode) => mode === 'nftables')) return 'wrong';
  if (!is.includes('balanced')) return isServed(was) && isServed(becomes) ? 'wrong' : 'unserved';
  if (!modes.includes('ipvs')) return 'wrong';
  if (fates.every((one) => one.endsWith(MASQUERADED) && allowed.has(one.slice(0, -MASQUERADED.length))))
    return 'masqueraded';
  if (fates.every((one) => former.has(one)) && isServed(was)) return 'former frontend';
  const isOfOne = modes.length > 1 && !(isServed(was) && isServed(becomes));
  return isOfOne && fates.every((one) => endpoints.has(one)) ? 'takeover' : 'wrong';
}

const MASQUERADED = ' masqueraded';

/** The fates of packets to these endpoints. */
function fatesTo(backends: readonly string[]): ReadonlySet<string> {
  return new Set(backends.flatMap((one) => [`balanced ${one}`, `balanced ${one}${MASQUERADED}`]));
}

function isServed(outcome: string): boolean {
  return outcome.split(', ').every((one) => one.startsWith('balanced'));
}
