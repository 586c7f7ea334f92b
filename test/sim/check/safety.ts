/**
 * What must hold after every commit of a kernel, whoever writes and whatever fails:
 *
 * - a packet that was delivered, and that every version from the agent's to the newest delivers, is not refused, dropped or left alone;
 * - no packet goes to an address that is not its frontend's endpoint for that sender in one of these versions;
 * - what belongs to others stays byte for byte, unless they write themselves.
 *
 * The agent's version of a frontend is the oldest one that the kernel meets, so that a state that comes back is no proof of the newer one.
 */

import { FAMILIES, type Family } from '../../../src/model/address.ts';
import type { FamilyView } from '../../../src/modes/view.ts';
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
import { type Become, becomeOf, fatesText, type KernelViews, viewsIn, type Walk } from './kernel-views.ts';
import { packetsTo, type Sender, type SentPacket } from './packets.ts';
import type { FrontendKey, FrontendVersions, Versions } from './versions.ts';
import { Walks } from './walks.ts';

export interface Violation {
  /** `stopped`: a packet is not delivered any more. `stray`: it goes where it must not. `others`: something of others changed. */
  readonly kind: 'stopped' | 'stray' | 'others';
  readonly text: string;
}

export interface Commit {
  readonly views: KernelViews;
  /** The families whose objects may have changed; by default both. */
  readonly families?: readonly Family[];
  /** Others break what they like: their commit is no violation, and the agent need not answer for what they broke. */
  readonly by: 'agent' | 'others';
  /** Everything in the kernel that is not the agent's. */
  readonly others?: string;
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
}

const NOTHING_REMEMBERED: ReadonlySet<string> = new Set();

export class SafetyCheck {
  readonly #versions: Versions;
  readonly #senders: readonly Sender[];
  readonly #walk: Walk;
  readonly #packets = new WeakMap<ReadonlySet<string>, Map<FrontendKey, readonly SentPacket[]>>();
  readonly #positions = new Map<FrontendKey, Position>();
  /** Names of packets that were delivered at the last check. */
  readonly #delivered = new Set<string>();
  /** Where others let packets go. */
  #broken: ReadonlySet<string> = new Set();
  #others: string | undefined;
  /** Number of packets that were judged, and of frontends that had too many versions to judge. */
  packets = 0;
  skipped = 0;

  constructor({ versions, senders, walk = new Walks().walk }: SafetyOptions) {
    this.#versions = versions;
    this.#senders = senders;
    this.#walk = walk;
  }

  /** The agent knows the newest versions, and has written them: the time for older ones is over. */
  settled(): void {
    for (const frontend of this.#versions.frontends) {
      this.#positions.set(frontend.key, newest(frontend, this.#versions));
    }
  }

  /** To be called after each commit, in the order of the commits. */
  committed({ views, families = FAMILIES, by, others }: Commit): Violation[] {
    const violations = others === undefined ? [] : this.#changedOthers(others, by);
    const broken = new Set<string>();
    for (const family of families) {
      const inFamily = viewsIn(views(family));
      for (const frontend of this.#versions.frontends) {
        if (frontend.at.family !== family) continue;
        for (const violation of this.#check(frontend, inFamily)) {
          const isTheirs = by === 'others' || this.#broken.has(violation.text);
          if (isTheirs) broken.add(violation.text);
          else violations.push(violation);
        }
      }
    }
    this.#broken = broken;
    return violations;
  }

  #changedOthers(others: string, by: Commit['by']): Violation[] {
    const before = this.#others;
    this.#others = others;
    if (by === 'others' || before === undefined || before === others) return [];
    return [{ kind: 'others', text: `what belongs to others changed: ${firstDifference(before, others)}` }];
  }

  #check(frontend: FrontendVersions, views: readonly FamilyView[]): Violation[] {
    const { family } = frontend.at;
    const position = this.#positions.get(frontend.key) ?? BEGINNING;
    const found = combinations(frontend, position, this.#versions);
    if (found === undefined) {
      this.skipped += 1;
      return [];
    }
    const local = this.#versions.localAddresses(family);
    const facts = { localAddresses: local, remembered: NOTHING_REMEMBERED };
    const different = [...new Map(found.map((one) => [one.same, one])).values()];
    const met = new Set(different.map(({ same }) => same));
    const violations: Violation[] = [];
    for (const sent of this.#packetsTo(frontend, local)) {
      this.packets += 1;
      const become = becomeOf(views, sent.packet, facts, this.#walk);
      violations.push(...this.#judge({ different, met, sent, become, local }));
    }
    if (met.size > 0) {
      const combinationsMet = found.filter(({ same }) => met.has(same));
      this.#positions.set(frontend.key, positionAfter(found, combinationsMet, position));
    }
    return violations;
  }

  /** The same objects while the machine's addresses stay: walks are remembered by them. */
  #packetsTo({ key, at }: FrontendVersions, local: ReadonlySet<string>): readonly SentPacket[] {
    const known = kept(this.#packets, local, () => new Map());
    return kept(known, key, () => packetsTo(at, this.#senders, local));
  }

  /** Removes combinations that the kernel does not meet from `met`. */
  #judge({ different, met, sent, become, local }: Judged): Violation[] {
    const { name } = sent;
    const allowed = new Set<string>();
    let isWanted = true;
    const text = fatesText(become.fates);
    for (const combination of different) {
      const wanted = wantedIn(sent, combination, local);
      for (const backend of wanted.backends) allowed.add(backend);
      isWanted &&= wanted.isDelivered;
      const isSame =
        become.texts.length === 0 ? wanted.text === text : become.texts.every((one) => one === wanted.text);
      const isMet = combination.port === undefined ? become.backends.size === 0 : isSame;
      if (!isMet) met.delete(combination.same);
    }
    const violations: Violation[] = [];
    const stray = [...become.backends].filter((backend) => !allowed.has(backend));
    if (stray.length > 0) {
      const may = allowed.size === 0 ? 'nowhere' : `only to ${[...allowed].join(', ')}`;
      violations.push({ kind: 'stray', text: `${name} goes to ${stray.join(', ')}, and may go ${may}` });
    }
    if (isWanted && !become.isDelivered && this.#delivered.has(name)) {
      violations.push({ kind: 'stopped', text: `${name} was delivered, should be, and is: ${text}` });
    }
    if (become.isDelivered) this.#delivered.add(name);
    else this.#delivered.delete(name);
    return violations;
  }
}

/** The first line that differs. */
function firstDifference(before: string, after: string): string {
  const [was, is] = [before, after].map((text) => text.split('\n'));
  const at = (was ?? []).findIndex((line, i) => line !== is?.[i]);
  return at < 0 ? `added: ${is?.[was?.length ?? 0]}` : `line ${at + 1} was ${was?.[at]}, and is ${is?.[at]}`;
}
