/**
 * What must hold after every commit of a kernel, whoever writes and whatever fails:
 *
 * - a packet that was delivered, and that every version from the agent's to the newest delivers, is not refused, dropped or left alone;
 * - no packet goes to an address that is not its frontend's endpoint for that sender in one of these versions. In IPVS mode servers are
 *   written before rules, so for a moment a sender may use the endpoints of another (docs/ipvs.md), if it may use any;
 * - what belongs to others stays byte for byte, unless they write themselves.
 *
 * The agent's version of a frontend is the oldest one that the kernel meets, so that a state that comes back is no proof of the newer one.
 * What others, a cleanup or a second agent wrote is no proof either: the agent may not know of it yet, and writes what it knows.
 */

import { isDeepStrictEqual } from 'node:util';
import { endpointText, FAMILIES, type Family, familyOf, isLoopback } from '../../../src/base/address.ts';
import type { ServiceKey } from '../../../src/proxy/model/objects.ts';
import type { FamilyView } from '../../../src/proxy/modes/view.ts';
import {
  BEGINNING,
  type Combination,
  combinations,
  newest,
  type Position,
  positionAfter,
  wantedIn,
} from './expectations.ts';
import { kept } from './kept.ts';
import {
  type Become,
  becomeOfWalked,
  fatesText,
  type KernelViews,
  viewsIn,
  type Walk,
  type Walked,
  withoutShares,
} from './kernel-views.ts';
import { packetsTo, type Sender, type SentPacket } from './packets.ts';
import type { FrontendKey, FrontendVersions, Versions } from './versions.ts';
import { Walks } from './walks.ts';

export interface Violation {
  /**
   * `stopped`: a packet is not delivered any more. `stray`: it goes where it must not. `others`: something of others changed. `claimed`: it
   * is not as the agent says.
   */
  readonly kind: 'stopped' | 'stray' | 'others' | 'claimed';
  readonly text: string;
}

/** `agents`: one of two agents that run at a time, such as `run --once` beside an agent. They need not know the same. */
export type Writer = 'agent' | 'agents' | 'cleanup' | 'others';

export interface Commit {
  readonly views: KernelViews;
  /** The families whose objects may have changed; by default both. */
  readonly families?: readonly Family[];
  /**
   * Others break what they like: their commit is no violation, and the agent need not answer for what they broke. A cleanup stops
   * packets on purpose; it must not send them to a stranger, nor touch what belongs to others.
   */
  readonly by: Writer;
  /** Others wrote a short time ago, and the agent may not have noticed: what it writes may rely on what they removed. */
  readonly isDisturbed?: boolean;
  /** The simulated time, in milliseconds; undefined: each commit has a time of its own. */
  readonly at?: number | undefined;
  /** Everything in the kernel that is not the agent's, which only others may change. */
  readonly others?: { readonly text: string; readonly by: Writer };
}

/** The oldest versions of a frontend that the agent claims: indices into lists of `Versions`. */
export interface Claim {
  readonly owner: number;
  readonly service: ServiceKey;
  readonly slices: number;
}

export interface SafetyOptions {
  readonly versions: Versions;
  readonly senders: readonly Sender[];
  /** By default walks are remembered. */
  readonly walk?: Walk | undefined;
}

interface Judged {
  /** One combination of each expectation. */
  readonly different: readonly Combination[];
  readonly met: Set<string>;
  readonly sent: SentPacket;
  readonly become: Become;
  readonly local: ReadonlySet<string>;
  /** Endpoints of all senders, where a sender that is admitted may use those of others for a moment; undefined: it may not. */
  readonly ofAll: ReadonlySet<string> | undefined;
  /** Endpoints of all slices, where the agent may know some of them anew and others of old; undefined: it knows them together. */
  readonly mixed: ReadonlySet<string> | undefined;
}

/** The packets to a frontend, and the walk of each in each view. */
interface ToJudge extends Pick<Commit, 'by' | 'at'> {
  readonly views: readonly FamilyView[];
  readonly packets: readonly SentPacket[];
  readonly walked: Checked['walked'];
  readonly local: ReadonlySet<string>;
}

/** The same `id` means the same fault. */
interface Found extends Violation {
  readonly id: string;
}

/** A frontend that was checked: while versions and walks are the same, so is what was found. */
interface Checked {
  readonly changes: number;
  readonly walked: readonly (readonly Walked[])[];
  readonly strays: readonly Found[];
}

/** Milliseconds in which a sync writes all, unless calls are slow. */
const SYNC_MS = 1000;
const NOTHING_REMEMBERED: ReadonlySet<string> = new Set();

export class SafetyCheck {
  readonly #versions: Versions;
  readonly #senders: readonly Sender[];
  readonly #walks = new Walks();
  readonly #walk: Walk;
  readonly #packets = new WeakMap<ReadonlySet<string>, Map<FrontendKey, readonly SentPacket[]>>();
  readonly #positions = new Map<FrontendKey, Position>();
  /**
   * Positions that the kernel seems to have reached by servers of IPVS. A sync writes them one after another, and what is between two writes may
   * look like a newer version by chance. So such a position counts once it stood for longer than a sync takes.
   */
  readonly #seeming = new Map<FrontendKey, { readonly since: number; readonly position: Position }>();
  readonly #checked = new Map<FrontendKey, Checked>();
  /** What becomes of the packets to a frontend, at the last check. */
  readonly #fates = new Map<FrontendKey, string>();
  /** Frontends of which others, a cleanup, or a second agent made that. */
  readonly #disturbed = new Set<FrontendKey>();
  /** By name: the packets that were delivered at the last check. */
  readonly #delivered = new Map<string, SentPacket>();
  /** The machine's addresses at the last check. */
  readonly #local = new Map<Family, ReadonlySet<string>>();
  /** What others broke, until it is repaired: ids of violations. */
  readonly #broken = new Map<Family, ReadonlySet<string>>();
  #others: string | undefined;
  #leavesOut = false;
  /** Number of packets that were judged, and of frontends that had too many versions to judge. */
  packets = 0;
  skipped = 0;

  constructor({ versions, senders, walk }: SafetyOptions) {
    this.#versions = versions;
    this.#senders = senders;
    this.#walk = walk ?? this.#walks.walk;
  }

  /** From now on the agent may leave out endpoints of Nodes that do not answer: what the kernel has is no proof of a version any more. */
  leavesOut(): void {
    this.#leavesOut = true;
  }

  /** The kernel has the newest versions of all frontends, or of these: the time for older ones is over. */
  settled(isSettled: (frontend: FrontendVersions) => boolean = () => true): void {
    this.#checked.clear();
    for (const frontend of this.#versions.frontends) {
      if (!isSettled(frontend)) continue;
      this.#positions.set(frontend.key, newest(frontend, this.#versions));
    }
  }

  /**
   * The agent says that the kernel has these versions, or newer ones. From now on it must be so, and what they deliver counts as
   * delivered. Nothing follows for frontends that another writer disturbed.
   */
  claimed(claims: ReadonlyMap<FrontendKey, Claim>, { views, at }: Pick<Commit, 'views' | 'at'>): Violation[] {
    const violations: Violation[] = [];
    for (const [key, { owner, service, slices }] of claims) {
      const frontend = this.#versions.frontend(key);
      if (frontend === undefined || this.#disturbed.has(key)) continue;
      const { family } = frontend.at;
      const position = this.#positions.get(key) ?? BEGINNING;
      const known = Math.max(slices, position.slices.get(service) ?? 0);
      this.#positions.set(key, {
        ...position,
        owner: Math.max(owner, position.owner),
        slices: new Map([...position.slices, [service, known]]),
      });
      this.#seeming.delete(key);
      this.#checked.delete(key);
      const broken = this.#broken.get(family);
      // The agent may not know of each address of the node yet, nor of what others broke.
      for (const sent of this.#packetsTo(frontend, this.#versions.localAddresses(family)))
        if (!sent.isNodePort && broken?.has(sent.name) !== true) this.#delivered.set(sent.name, sent);
      const found = this.#check(frontend, viewsIn(views(family)), { by: 'agent', at });
      for (const { text } of found.filter(({ id }) => broken?.has(id) !== true))
        violations.push({ kind: 'claimed', text: `the agent said that it is written, but ${text}` });
    }
    return violations;
  }

  /** To be called after each commit, in the order of the commits. */
  committed({ views, families = FAMILIES, by, isDisturbed = false, at, others }: Commit): Violation[] {
    this.#walks.begin();
    const violations = others === undefined ? [] : this.#changedOthers(others);
    for (const family of families) {
      const broken = new Set<string>();
      this.#forgetGone(family);
      const inFamily = viewsIn(views(family));
      for (const frontend of this.#versions.frontends) {
        if (frontend.at.family !== family) continue;
        for (const { id, ...violation } of this.#check(frontend, inFamily, { by, at })) {
          if (by === 'cleanup' && violation.kind === 'stopped') continue;
          const isTheirConsequence = isDisturbed && violation.kind === 'stopped';
          const isTheirs = by === 'others' || isTheirConsequence || this.#broken.get(family)?.has(id) === true;
          if (isTheirs) broken.add(id);
          else violations.push(violation);
        }
      }
      this.#broken.set(family, broken);
    }
    return violations;
  }

  /** No packet was delivered to an address that went and came back since: the agent has to follow it first. */
  #forgetGone(family: Family): void {
    const local = this.#versions.localAddresses(family);
    if (this.#local.get(family) === local) return;
    this.#local.set(family, local);
    for (const [name, { packet, isNodePort }] of this.#delivered) {
      const { destination } = packet;
      const isGone = isNodePort && !local.has(destination) && !isLoopback(destination);
      if (isGone && familyOf(destination) === family) this.#delivered.delete(name);
    }
  }

  #changedOthers({ text, by }: NonNullable<Commit['others']>): Violation[] {
    const before = this.#others;
    this.#others = text;
    if (by === 'others' || before === undefined || before === text) return [];
    return [{ kind: 'others', text: `what belongs to others changed: ${firstDifference(before, text)}` }];
  }

  #check(
    frontend: FrontendVersions,
    views: readonly FamilyView[],
    { by, at }: Pick<Commit, 'by' | 'at'>,
  ): readonly Found[] {
    const { family } = frontend.at;
    const seeming = this.#seeming.get(frontend.key);
    if (seeming !== undefined && (at ?? 0) - seeming.since > SYNC_MS) {
      this.#positions.set(frontend.key, seeming.position);
      this.#seeming.delete(frontend.key);
      this.#checked.delete(frontend.key);
    }
    const local = this.#versions.localAddresses(family);
    const packets = this.#packetsTo(frontend, local);
    const facts = { localAddresses: local, remembered: NOTHING_REMEMBERED };
    const walked = packets.map(({ packet }) => views.map((view) => this.#walk(view, packet, facts)));
    this.packets += packets.length;
    const known = this.#checked.get(frontend.key);
    const { changes } = this.#versions;
    if (known?.changes === changes && !this.#seeming.has(frontend.key) && sameWalks(known.walked, walked))
      return known.strays;
    const found = this.#judgeAll(frontend, { views, packets, walked, local, by, at });
    this.#checked.set(frontend.key, { changes, walked, strays: found.filter(({ kind }) => kind === 'stray') });
    return found;
  }

  #judgeAll(frontend: FrontendVersions, { views, packets, walked, local, by, at }: ToJudge): readonly Found[] {
    const position = this.#positions.get(frontend.key) ?? BEGINNING;
    const found = combinations(frontend, position, this.#versions);
    if (found === undefined) {
      this.skipped += 1;
      return [];
    }
    const different = [...new Map(found.map((one) => [one.same, one])).values()];
    const met = new Set(different.map(({ same }) => same));
    const violations: Found[] = [];
    const hasServers = views.some(({ servers }) => servers !== undefined);
    const ofAll = hasServers ? backendsOf(packets, different, local) : undefined;
    const mixed = this.#versions.readsApart ? mixedIn(frontend, found, this.#versions) : undefined;
    const texts: string[] = [];
    for (const [i, sent] of packets.entries()) {
      const become = becomeOfWalked(views, walked[i] ?? []);
      texts.push(fatesText(become.fates));
      violations.push(...this.#judge({ different, met, sent, become, local, ofAll, mixed }));
    }
    const isByAgent = this.#isByAgent(frontend.key, texts.join('\n'), by);
    if (met.size > 0 && isByAgent && !this.#leavesOut) {
      const combinationsMet = found.filter(({ same }) => met.has(same));
      const after = positionAfter(found, combinationsMet, position);
      const seeming = this.#seeming.get(frontend.key);
      // Only nftables mode writes a Service as a whole: between two tables of iptables a frontend may look as if other settings were in force.
      const isWhole = views.length > 0 && views.every(({ rules }) => rules === undefined);
      if (isWhole || at === undefined || isDeepStrictEqual(after, position)) {
        this.#seeming.delete(frontend.key);
        this.#positions.set(frontend.key, after);
      } else if (!isDeepStrictEqual(seeming?.position, after)) {
        this.#seeming.set(frontend.key, { since: at, position: after });
      }
    } else this.#seeming.delete(frontend.key);
    return violations;
  }

  /** Whether what becomes of the packets comes from the knowledge of the one agent. */
  #isByAgent(key: FrontendKey, fates: string, by: Writer): boolean {
    const isChanged = this.#fates.get(key) !== fates;
    this.#fates.set(key, fates);
    if (!isChanged) return !this.#disturbed.has(key);
    if (by === 'agent') this.#disturbed.delete(key);
    else this.#disturbed.add(key);
    return by === 'agent';
  }

  /** The same objects while the machine's addresses stay: walks are remembered by them. */
  #packetsTo({ key, at }: FrontendVersions, local: ReadonlySet<string>): readonly SentPacket[] {
    const known = kept(this.#packets, local, () => new Map());
    return kept(known, key, () => packetsTo(at, this.#senders, local));
  }

  /** Removes combinations that the kernel does not meet from `met`. */
  #judge({ different, met, sent, become, local, ofAll, mixed }: Judged): Found[] {
    const { name } = sent;
    const allowed = new Set<string>();
    let isWanted = mixed === undefined;
    const text = fatesText(become.fates);
    for (const combination of different) {
      const wanted = wantedIn(sent, combination, local);
      for (const backend of wanted.backends) allowed.add(backend);
      isWanted &&= wanted.isDelivered;
      const shown = combination.isGrowing ? withoutShares : (each: string) => each;
      const texts = become.texts.length === 0 ? [text] : become.texts;
      const isSame = texts.every((one) => shown(one) === shown(wanted.text));
      const isMet = combination.port === undefined ? become.backends.size === 0 : isSame;
      if (!isMet) met.delete(combination.same);
    }
    const violations: Found[] = [];
    const admitted = allowed.size === 0 ? allowed : new Set([...(ofAll ?? allowed), ...(mixed ?? [])]);
    const strays = [...become.backends].filter((backend) => !admitted.has(backend));
    for (const stray of strays) {
      const may = admitted.size === 0 ? 'nowhere' : `only to ${[...admitted].join(', ')}`;
      const text = `${name} goes to ${stray}, and may go ${may}`;
      violations.push({ id: `${name} ${stray}`, kind: 'stray', text });
    }
    if (isWanted && !become.isDelivered && this.#delivered.has(name)) {
      violations.push({ id: name, kind: 'stopped', text: `${name} was delivered, should be, and is: ${text}` });
    }
    if (become.isDelivered && strays.length === 0) this.#delivered.set(name, sent);
    else this.#delivered.delete(name);
    return violations;
  }
}

/** Remembered walks are the same objects. */
function sameWalks(before: Checked['walked'], now: Checked['walked']): boolean {
  return (
    before.length === now.length &&
    now.every((walks, i) => walks.length === before[i]?.length && walks.every((walk, j) => walk === before[i]?.[j]))
  );
}

/** See `Judged.mixed`. */
function mixedIn(
  { at }: FrontendVersions,
  found: readonly Combination[],
  versions: Versions,
): ReadonlySet<string> | undefined {
  if (new Set(found.map(({ service, slices }) => `${service} ${slices}`)).size < 2) return undefined;
  const lists = found.flatMap(({ service, slices }) =>
    service === undefined ? [] : (versions.slicesOf(service, at.family)[slices] ?? []),
  );
  return new Set(
    lists.flatMap(({ ports, endpoints }) =>
      endpoints.flatMap(({ address }) => ports.map(({ port }) => endpointText(address, port))),
    ),
  );
}

/** Every endpoint that any of the packets may reach. */
function backendsOf(
  packets: readonly SentPacket[],
  different: readonly Combination[],
  local: ReadonlySet<string>,
): Set<string> {
  return new Set(packets.flatMap((sent) => different.flatMap((one) => wantedIn(sent, one, local).backends)));
}

/** The first line that differs. */
function firstDifference(before: string, after: string): string {
  const [was, is] = [before, after].map((text) => text.split('\n'));
  const at = (was ?? []).findIndex((line, i) => line !== is?.[i]);
  return at < 0 ? `added: ${is?.[was?.length ?? 0]}` : `line ${at + 1} was ${was?.[at]}, and is ${is?.[at]}`;
}
