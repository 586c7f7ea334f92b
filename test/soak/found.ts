/** Puts together what a soak found. */
import { measuredNow } from '../reliability/machine.ts';
import { milliseconds } from './monotonic.ts';
import type { ProbeAnswer, Probed } from './probe-protocol.ts';
import type { SoakResult } from './result.ts';
import type { Ended, SoakRun } from './run.ts';

/** Failures that are kept one by one. */
const KEPT = 50;

export function foundOf(run: SoakRun, { seconds, isEarly, changes, probes, watched, left }: Ended): SoakResult {
  const { options, measured, judge, agent } = run;
  const { lost, wrong, cut, whileDamaged } = judge.verdict;
  const sum = (of: (answer: ProbeAnswer) => number) => probes.reduce((all, one) => all + of(one), 0);
  const most = (values: readonly number[]) => values.reduce((a, b) => Math.max(a, b), 0);
  return {
    ...measuredNow(),
    seconds: isEarly ? seconds : options.seconds,
    tail: isEarly ? 0 : options.tail,
    isEarly,
    services: options.services,
    changes: {
      asked: options.perSecond,
      made: changes.changes,
      skipped: changes.skipped,
      perSecond: changes.changes / seconds,
    },
    probes: {
      sent: sum((one) => one.sent),
      answered: sum((one) => one.answered),
      lost: lost.length,
      wrong: wrong.length,
      cut: cut.length,
      whileDamaged: whileDamaged.length,
      sentAgain: sum((one) => one.sentAgain),
      slowest: most(probes.map((one) => one.slowest)),
      failures: [...lost, ...wrong].slice(0, KEPT).map(textOf),
    },
    lives: run.lives,
    reloads: run.reloads,
    flushes: run.flushes,
    memory: measured.memory.found,
    tailMemory: measured.tailMemory,
    descriptors: measured.descriptors.found,
    tailDescriptors: measured.tailDescriptors.found,
    timers: measured.timers.found,
    connections: measured.connections.found,
    syncs: measured.syncs,
    datapath: measured.datapath,
    falseAlarms: judge.falseAlarms(agent.alarms),
    unhealthy: { longest: watched.longestUnhealthy, sum: watched.unhealthy },
    verify: run.verify,
    left,
    complaints: [...agent.complaints].map(([message, count]) => ({ message, count })).sort((a, b) => b.count - a.count),
  };
}

function textOf({ target, asked, over, outcome, by }: Probed): string {
  const { name, protocol, address, port } = target;
  const when = new Date(Date.now() - milliseconds() + asked).toISOString();
  return `${when} ${name}, ${protocol} to ${address} port ${port}: ${outcome}, ${by}, after ${(over - asked).toFixed(0)} ms`;
}
