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
import { BEGINNING, type Combination, combinations, expectedIn, newest, type Position } from './expectations.ts';
import { type Become, becomeOf, fatesText, type KernelViews, viewsIn, type Walk } from './kernel-views.ts';
import { packetsTo, type Sender, type SentPacket } from './packets.ts';
import type { FrontendKey, FrontendVersions, Versions } from './versions.ts';

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
  /** By default packets are walked anew each time. */
  readonly walk?: Walk | undefined;
}

interface Judged {
  readonly frontend: FrontendVersions;
  readonly found: readonly Combination[];
  readonly sent: SentPacket;
  readonly become: Become;
}

const NOTHING_REMEMBERED: ReadonlySet<string> = new Set();

export class SafetyCheck {
  readonly #versions: Versions;
  readonly #senders: readonly Sender[];
  readonly #walk: Walk | undefined;
  readonly #positions = new Map<FrontendKey, Position>();
  /** Names of packets that were delivered at the last check. */
  readonly #delivered = new Set<string>();
  /** Where others let packets go. */
  #broken: ReadonlySet<string> = new Set();
  #others: string | undefined;
  /** Number of packets that were judged, and of frontends that had too many versions to judge. */
  packets = 0;
  skipped = 0;

  constructor({ versions, senders, walk }: SafetyOptions) {
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
      for (const frontend of this.#versions.frontends) {
        if (frontend.at.family !== family) continue;
        for (const violation of this.#check(frontend, views)) {
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

  #check(frontend: FrontendVersions, views: KernelViews): Violation[] {
    const { family, address } = frontend.at;
    const position = this.#positions.get(frontend.key) ?? BEGINNING;
    const found = combinations(frontend, position, this.#versions);
    if (found === undefined) {
      this.skipped += 1;
      return [];
    }
    const local = this.#versions.localAddresses(family);
    const inFamily = viewsIn(views(family));
    const facts = { localAddresses: local, remembered: NOTHING_REMEMBERED };
    const violations: Violation[] = [];
    let met = found;
    for (const sent of packetsTo(frontend.at, this.#senders, local)) {
      this.packets += 1;
      const become = becomeOf(inFamily, sent.packet, facts, this.#walk);
      const judged = { frontend, found, sent, become };
      violations.push(...this.#judge(judged));
      const isMet = this.#meets(judged, address === undefined);
      met = met.filter(isMet);
      if (become.isDelivered) this.#delivered.add(sent.name);
      else this.#delivered.delete(sent.name);
    }
    if (met.length > 0) this.#positions.set(frontend.key, oldest(met, position));
    return violations;
  }

  #judge({ frontend, found, sent, become }: Judged): Violation[] {
    const { name, packet } = sent;
    const local = this.#versions.localAddresses(frontend.at.family);
    const isNodePort = frontend.at.address === undefined;
    const allowed = new Set<string>();
    let isWanted = true;
    for (const combination of found) {
      const fates = expectedIn({ name, packet, isNodePort, combination, local }, this.#versions);
      for (const { kind, backend } of fates) {
        if (kind === 'balanced') allowed.add(backend);
        else isWanted = false;
      }
    }
    const violations: Violation[] = [];
    const stray = [...become.backends].filter((backend) => !allowed.has(backend));
    if (stray.length > 0) {
      const may = allowed.size === 0 ? 'nowhere' : `only to ${[...allowed].join(', ')}`;
      violations.push({ kind: 'stray', text: `${name} goes to ${stray.join(', ')}, and may go ${may}` });
    }
    if (isWanted && !become.isDelivered && this.#delivered.has(name)) {
      const text = `${name} was delivered, should be, and is: ${fatesText(become.fates)}`;
      violations.push({ kind: 'stopped', text });
    }
    return violations;
  }

  #meets({ frontend, sent, become }: Judged, isNodePort: boolean): (combination: Combination) => boolean {
    const { name, packet } = sent;
    const local = this.#versions.localAddresses(frontend.at.family);
    const isNowhere = become.backends.size === 0;
    const text = fatesText(become.fates);
    return (combination) => {
      if (combination.port === undefined) return isNowhere;
      return fatesText(expectedIn({ name, packet, isNodePort, combination, local }, this.#versions)) === text;
    };
  }
}

/** The oldest of each. */
function oldest(met: readonly Combination[], before: Position): Position {
  const slices = new Map(before.slices);
  for (const { service } of met) {
    if (service === undefined) continue;
    slices.set(service, Math.min(...met.filter((one) => one.service === service).map((one) => one.slices)));
  }
  const least = (of: (one: Combination) => number) => Math.min(...met.map(of));
  return { owner: least(({ owner }) => owner), node: least(({ node }) => node), slices };
}

/** The first line that differs. */
function firstDifference(before: string, after: string): string {
  const [was, is] = [before, after].map((text) => text.split('\n'));
  const at = (was ?? []).findIndex((line, i) => line !== is?.[i]);
  return at < 0 ? `added: ${is?.[was?.length ?? 0]}` : `line ${at + 1} was ${was?.[at]}, and is ${is?.[at]}`;
}
