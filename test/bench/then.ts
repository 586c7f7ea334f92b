/** What slicewire set out to halve: the figures of a day, what was aimed at then, and what is found today beside kube-proxy. */
import type { ProxyName, RivalMeasured, RivalMode, RivalsResult } from './rivals.ts';
import { rivalName } from './rivals-page.ts';
import { median, most, ms, percent, ratio, table } from './text.ts';

/** One figure at one size. Smaller is better. */
interface Goal {
  readonly what: string;
  readonly mode: RivalMode;
  readonly services: number;
  readonly endpoints: number;
  /** As it was measured then, as text: a range where several were measured. */
  readonly then: string;
  readonly aim: number;
  /** Also to be below kube-proxy in the same run. */
  readonly beatsRival?: boolean;
  readonly value: (one: RivalMeasured) => number | undefined;
  readonly text: (value: number) => string;
}

const seconds = (value: number) => `${(value / 1000).toFixed(2)} s`;
const megabytes = (value: number) => `${value.toFixed(0)} MB`;
const times = (value: number) => `${value.toFixed(2)} × \`nft -f\``;
const bytes = (value: number) => `${Math.round(value).toLocaleString('en')} bytes`;
const rest = (value: number) => percent(value, 2);

const cold = {
  what: 'cold start',
  mode: 'nftables',
  value: (one: RivalMeasured) => median(one.cold),
  text: seconds,
} as const;
const floored = {
  what: 'cold start beside `nft -f` of the same',
  mode: 'nftables',
  value: ({ cold: own, floor }: RivalMeasured) =>
    floor === undefined ? undefined : Number(ratio(median(own), median(floor))),
  text: times,
} as const;
const memory = {
  what: 'memory not of a file',
  mode: 'nftables',
  value: (one: RivalMeasured) => one.anonymous,
  text: megabytes,
} as const;
const peak = {
  what: 'memory at the peak of a cold start',
  mode: 'nftables',
  value: (one: RivalMeasured) => median(one.peak),
  text: megabytes,
} as const;
const restart = {
  what: 'restart with nothing to do',
  mode: 'nftables',
  value: ({ restart: all }: RivalMeasured) => (all === undefined ? undefined : median(all)),
  text: seconds,
} as const;
const churn = {
  what: 'processor of 100 changes a second',
  value: (one: RivalMeasured) => one.churn?.processor,
  text: (value: number) => percent(value),
} as const;

const at = (services: number, endpoints: number, then: string, aim: number) => ({ services, endpoints, then, aim });

export const GOALS: readonly Goal[] = [
  { ...cold, ...at(1, 1, '0.5 s', 250), beatsRival: true },
  { ...cold, ...at(1000, 5, '0.7 to 0.9 s', 500), beatsRival: true },
  { ...floored, ...at(10_000, 5, '2.9 × `nft -f`', 1.6) },
  { ...floored, ...at(44_000, 1, '4.4 × `nft -f`', 2) },
  { ...memory, ...at(1, 1, '35 MB', 20) },
  { ...memory, ...at(1000, 5, '51 MB', 28) },
  { ...memory, ...at(10_000, 5, '117 MB', 60) },
  { ...memory, ...at(44_000, 1, '344 MB', 120) },
  { ...peak, ...at(10_000, 5, '252 MB', 180) },
  { ...peak, ...at(44_000, 1, '442 MB', 240) },
  { ...restart, ...at(10_000, 5, '2.9 s', 1200) },
  { ...restart, ...at(5000, 50, '9.0 s', 2000) },
  { ...churn, mode: 'nftables', ...at(10_000, 5, 'not measured', 0.03) },
  { ...churn, mode: 'iptables', ...at(10_000, 5, '25 %', 0.12) },
  {
    ...{
      what: 'bytes received for a changed slice of 100 endpoints',
      mode: 'nftables',
      ...at(1, 1, '28,491 bytes', 15_008),
    },
    ...{ value: (one) => one.received, text: bytes },
  },
  {
    ...{ what: 'longest wait for health in a cold start', mode: 'nftables', ...at(44_000, 1, '335 ms', 50) },
    ...{
      value: ({ holds }) => (holds === undefined ? undefined : most(Object.values(holds))),
      text: (value) => ms(value),
    },
  },
  {
    ...{ what: 'at rest', mode: 'nftables', ...at(10_000, 5, '1.2 %', 0.001) },
    ...{ value: (one) => one.idle, text: rest },
  },
];

/** The figure of a proxy; undefined where it was not measured. */
function found({ measured }: RivalsResult, goal: Goal, proxy: ProxyName): number | undefined {
  const { services, endpoints, mode } = goal;
  const one = measured.find(
    ({ shape, ...of }) =>
      of.proxy === proxy && of.mode === mode && shape.services === services && shape.endpoints === endpoints,
  );
  return one === undefined ? undefined : goal.value(one);
}

export function todayBesideThen(rivals: RivalsResult): string {
  const rows = GOALS.map((goal) => {
    const { what, mode, services, endpoints, then, aim, beatsRival = false, text } = goal;
    const own = found(rivals, goal, 'slicewire');
    const theirs = found(rivals, goal, 'kube-proxy');
    const wanted = `${text(aim)}${beatsRival ? ', below kube-proxy' : ''}`;
    const cluster = `${services.toLocaleString('en')} × ${endpoints}, ${mode}`;
    const limit = beatsRival && theirs !== undefined ? Math.min(aim, theirs) : aim;
    const reached = own === undefined ? 'not measured' : own <= limit ? 'reached' : '**missed**';
    const print = (value: number | undefined) => (value === undefined ? '–' : text(value));
    return [what, cluster, then, wanted, print(own), print(theirs), reached];
  });
  return `## Today beside then

The figures that were to be halved: what they were, what was aimed at, and what one run finds today.
The column of kube-proxy is from the same run.

${table(['measure', 'at', 'then', 'aim', 'today', rivalName(rivals), ''], rows)}`;
}
