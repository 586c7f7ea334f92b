/** A history from a seed: how the agent is configured, what happens around it and when, and how likely faults are. */
import { Random } from '../../helpers/base/random.ts';
import type { Action, ForeignWrite, Predecessor, Settings, SimMode, Step } from './actions.ts';
import { fleetObjects } from './fleet-objects.ts';
import { otherNode, SimObjects, VISITING_ADDRESS } from './objects.ts';
import { SimPods } from './pods.ts';

/** How the agent gets its objects: from an API server, whose slices the actors write or our controller, or from a folder. */
export type SimSource = 'api' | 'manifests' | 'controller';

/** A fault at a numbered call. */
export interface PlannedFault {
  readonly call: number;
  /** Chooses the fault; see `faultOf`. */
  readonly dice: number;
}

export interface HistoryPlan {
  readonly seed: number;
  readonly source: SimSource;
  readonly settings: Settings;
  /** Variant of the iptables tools. */
  readonly variant: 'nft' | 'legacy';
  readonly readsProtobuf: boolean;
  /** The agent asks for lists as streams (KEP-3157). */
  readonly streamsLists: boolean;
  /** The agent counts connections and bytes of each Service (--service-metrics). */
  readonly measures: boolean;
  /** A program that writes an object asks the agent whether it is in the kernel (`/programmed`). */
  readonly asksMarks: boolean;
  /** The agent looks for Nodes that do not answer (--failover=confirm). */
  readonly confirms: boolean;
  /** Node ports are served on loopback too: nftables and IPVS mode relay them. */
  readonly relays: boolean;
  /** The agent keeps its history on a disk, which is full for a while (--record-dir). */
  readonly records: boolean;
  /** Three nodes with an agent each, and a fleet that is asked for Pods that end. */
  readonly hasFleet: boolean;
  /** The mode is auto, whatever the settings say. */
  readonly choosesMode: boolean;
  /** Bytes that one send to nftables takes: a few Services need several transactions, as thousands do otherwise. undefined: any. */
  readonly longestSent: number | undefined;
  /** A transaction that touches more objects is told as one that touched whole sets, or the whole table, as with thousands otherwise. */
  readonly mostNamed: number | undefined;
  /** Something served before the first agent. */
  readonly predecessor: Predecessor | undefined;
  /** kube-proxy in this mode runs beside the agent for a while. */
  readonly beside: SimMode | undefined;
  /** The API server, or a proxy before it, has no HTTP/2: a fault of one connection is none of the others. */
  readonly isHttp1: boolean;
  /** The API server can do so. */
  readonly canStream: boolean;
  readonly steps: readonly Step[];
  /** The share of calls at which a fault happens, until the last step; ignored where `faults` is given. */
  readonly faultRate: number;
  /** Exactly these faults. */
  readonly faults?: readonly PlannedFault[] | undefined;
}

/** Of histories with --failover: half of the others must answer. */
const OTHER_NODES = 3;
const CLIENTS = 6;
/** Room for some fifty elements, or ten rules. */
const LITTLE = 16_384;
const FEW = 2;
/** Milliseconds from one step to the next, at most. */
const PAUSES = [1, 20, 300, 3000, 20_000] as const;
const MODES: readonly SimMode[] = ['nftables', 'iptables', 'ipvs'];

/** The plan of a seed; `mode`: only histories that begin in this mode. */
export function planOf(seed: number, only: { readonly mode?: SimMode } = {}): HistoryPlan {
  const random = new Random(seed);
  const mode = only.mode ?? random.pick(MODES);
  const source = random.pick(SOURCES);
  const confirms = source !== 'controller' && new Random(seed ^ 0xfa11).chance(0.1);
  const isTight = new Random(seed ^ 0x5e4d).chance(0.2);
  // The slots of weights need more room than that.
  const steers = !isTight && new Random(seed ^ 0x51075).chance(0.4);
  const objects =
    source === 'controller'
      ? new SimPods(random.fork())
      : new SimObjects(random.fork(), { others: confirms ? OTHER_NODES : 1, steers });
  const steps: Step[] = objects.first().map((action) => ({ at: 0, action }));
  let at = 0;
  const count = random.between(5, 40);
  for (let i = 0; i < count; i++) {
    at += random.between(0, random.pick(PAUSES));
    for (const action of nextActions(random, objects, source)) steps.push({ at, action });
  }
  const standstill = standstillOf(seed, at);
  const hasFleet = source === 'api' && new Random(seed ^ 0xf1ee7).chance(0.1);
  const beside = hasFleet ? undefined : besideOf(seed);
  if (beside !== undefined)
    steps.push({
      at: new Random(seed ^ 0xe4d).between(1, Math.max(2, at)),
      action: { kind: 'kube-proxy', what: 'end' },
    });
  const records = new Random(seed ^ 0x4ec0).chance(0.15);
  if (records) steps.push(...fullDisk(seed, at));
  if (confirms) steps.push(...silences(seed, at));
  if (hasFleet) steps.unshift(...fleetObjects().map((action) => ({ at: 0, action })));
  return {
    seed,
    source,
    // By a chance of its own: the rest of a history is the same with and without.
    measures: new Random(seed ^ 0x3ea5).chance(0.3),
    longestSent: isTight ? LITTLE : undefined,
    mostNamed: new Random(seed ^ 0x70c4).chance(0.2) ? FEW : undefined,
    beside,
    predecessor: beside ?? predecessorOf(seed),
    isHttp1: new Random(seed ^ 0x4771).chance(0.2),
    confirms,
    relays: new Random(seed ^ 0x4e1a).chance(0.15),
    records,
    hasFleet,
    choosesMode: new Random(seed ^ 0xa070).chance(0.1),
    asksMarks: source !== 'manifests' && new Random(seed ^ 0x3a4c5).chance(0.4),
    settings: {
      mode,
      syncPeriod: random.pick([5000, 30_000]),
      minSyncPeriod: random.pick([0, 100, 1000]),
      nodePortAddresses: [],
      masqueradeAll: random.chance(0.2),
    },
    variant: random.chance(0.3) ? 'legacy' : 'nft',
    readsProtobuf: random.chance(0.5),
    steps: [...steps, ...(standstill === undefined ? [] : [standstill])].sort((a, b) => a.at - b.at),
    faultRate: random.pick([0, 0.002, 0.01, 0.03]),
    streamsLists: random.chance(0.5),
    canStream: random.chance(0.8),
  };
}

/** One history of eight has one. */
function predecessorOf(seed: number): Predecessor | undefined {
  const random = new Random(seed ^ 0x6b7072);
  return random.chance(0.125) ? random.pick([...MODES, 'earlier version'] as const) : undefined;
}

/** One history of sixteen has it. */
function besideOf(seed: number): SimMode | undefined {
  const random = new Random(seed ^ 0xbe51de);
  return random.chance(1 / 16) ? random.pick(MODES) : undefined;
}

/** Nodes fall silent, and answer again; clients open connections meanwhile. */
function silences(seed: number, end: number): Step[] {
  const random = new Random(seed ^ 0x511e);
  const steps: Step[] = [];
  for (let n = random.between(1, 3); n > 0; n--) {
    const at = random.between(1, Math.max(2, end));
    const until = at + random.between(0, 30_000);
    steps.push({ at, action: { kind: 'silence', node: otherNode(random.below(OTHER_NODES), OTHER_NODES) } });
    for (let i = 0; i < CLIENTS; i++)
      steps.push({ at: random.between(at, until), action: { kind: 'flows', variant: random.below(1000) } });
    steps.push({ at: until, action: { kind: 'silence', node: undefined } });
  }
  return steps;
}

/** The disk is full once or twice. */
function fullDisk(seed: number, end: number): Step[] {
  const random = new Random(seed ^ 0xd15c);
  return Array.from({ length: random.between(1, 2) }).flatMap(() => {
    const at = random.between(1, Math.max(2, end));
    const until = at + random.between(0, 90_000);
    return [
      { at, action: { kind: 'disk', isFull: true } },
      { at: until, action: { kind: 'disk', isFull: false } },
    ] as const;
  });
}

/** One history of eight has one, by a chance of its own. */
function standstillOf(seed: number, end: number): Step | undefined {
  const random = new Random(seed ^ 0xf4ee2e);
  if (!random.chance(0.125)) return undefined;
  const at = random.between(1, Math.max(2, end));
  return { at, action: { kind: 'freeze', milliseconds: random.pick([2000, 20_000, 60_000]) } };
}

function nextActions(random: Random, objects: SimObjects | SimPods, source: SimSource): readonly Action[] {
  const dice = random.next();
  if (dice < 0.6) return objects.next();
  if (dice < 0.72) return [{ kind: 'foreign', what: random.pick(FOREIGN), variant: random.below(1000) }];
  if (dice < 0.8) return [{ kind: 'agent', what: random.pick(AGENT) }];
  if (dice < 0.88 && source !== 'manifests') return [{ kind: 'api', what: random.pick(API) }];
  if (dice < 0.92) return [{ kind: 'configure', settings: someSettings(random), isSignalled: random.chance(0.5) }];
  if (dice < 0.95) return [{ kind: 'address', address: VISITING_ADDRESS, isThere: random.chance(0.5) }];
  if (dice < 0.99) return [{ kind: 'flows', variant: random.below(1000) }];
  return [{ kind: 'clock', by: random.between(-100_000, 100_000) }];
}

const FOREIGN: readonly ForeignWrite[] = [
  'flush-chain',
  'delete-rule',
  'delete-element',
  'delete-chain',
  'delete-table',
  'flush-nat',
  'own-rule',
  'own-rule',
  'hold-lock',
  'remove-address',
  'remove-server',
];
const AGENT = ['restart', 'restart', 'kill', 'kill', 'hang-up', 'once', 'second', 'cleanup'] as const;
const SOURCES: readonly SimSource[] = ['api', 'api', 'api', 'manifests', 'controller'];
const API = ['go-silent', 'reset', 'go-down', 'come-up', 'go-back', 'compact', 'expire'] as const;

function someSettings(random: Random): Partial<Settings> {
  const dice = random.next();
  if (dice < 0.5) return { mode: random.pick(MODES) };
  if (dice < 0.7) return { nodePortAddresses: random.pick([[], ['192.168.7.0/24', 'fd00:7::/64'], ['192.0.2.0/24']]) };
  return dice < 0.85 ? { masqueradeAll: random.chance(0.5) } : { minSyncPeriod: random.pick([0, 200]) };
}
