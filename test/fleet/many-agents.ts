/** Many simulated agents in one process, at a simulated time: their events go through the fleet's parts as those of real ones. */

import type { Address } from '../../src/base/address.ts';
import type { Drained } from '../../src/inspect/wire/drained.ts';
import type { ProgrammedEvent } from '../../src/inspect/wire/programmed.ts';
import { serviceModel } from '../helpers/proxy/model/service-model.ts';
import { endpoint, fleetRig, pod, slice } from './core-rig.ts';

export interface ManyOptions {
  readonly agents: number;
  readonly services: number;
  /** Endpoints of each Service, in one slice. */
  readonly endpoints: number;
  readonly changesPerSecond: number;
  /** Questions of /drained that are asked in each second. */
  readonly questionsPerSecond: number;
  readonly seconds: number;
  readonly parse?: (text: string) => ProgrammedEvent;
}

export interface ManyResult {
  readonly events: number;
  /** Milliseconds of CPU for all events, changes and questions, and for JSON.parse of the same events alone. */
  readonly spent: number;
  readonly floor: number;
  readonly changes: number;
  readonly drained: number;
  readonly late: number;
  /** Changes counted once for each node, in the metric. */
  readonly pairs: number;
}

/** Milliseconds of CPU of this thread: another program on the machine does not count. */
function cpu(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Milliseconds between two syncs of an agent. */
const SYNC = 1000;

export async function manyAgents(options: ManyOptions): Promise<ManyResult> {
  const { agents, services, endpoints, changesPerSecond, questionsPerSecond, seconds } = options;
  const parse = options.parse ?? ((text: string): ProgrammedEvent => JSON.parse(text));
  const names = Array.from({ length: agents }, (_, i) => `node-${i}`);
  const rig = fleetRig({ nodes: names, isListed: false });
  const podsOf = (i: number) =>
    Array.from({ length: endpoints }, (_, k) =>
      endpoint(`web-${i}-${k}`, 'ready', names[(i + k) % agents], `10.${i >> 8}.${i & 255}.${k}` as Address),
    );
  for (let i = 0; i < services; i += 1) {
    rig.objects.setService(`shop/s${i}`, serviceModel(`shop/s${i}`), rig.next(), false);
    rig.objects.setSlice(`shop/s${i}`, slice(`shop/s${i}`, `shop/s${i}`, podsOf(i)), rig.next(), false);
  }
  rig.list();
  const services0 = rig.version;
  rig.programmed(...names);
  const { pace } = rig.nodes;
  /** What was the newest version at the end of each sync. */
  const marks: { readonly at: number; readonly version: string }[] = [];
  let [events, spent, floor, changes] = [0, 0, 0, 0];
  const timed = <T>(work: () => T): T => {
    const begun = cpu();
    const result = work();
    spent += cpu() - begun;
    return result;
  };
  const answers: Promise<Drained>[] = [];
  const step = 10;
  for (let at = 0; at < seconds * 1000; at += step) {
    timed(() => rig.clock.advance(step));
    for (let n = Math.floor((at * changesPerSecond) / 1000); n < ((at + step) * changesPerSecond) / 1000; n += 1) {
      if (n < changes) continue;
      changes += 1;
      const i = n % services;
      const [first, ...others] = podsOf(i);
      const isAsked = n % Math.max(1, Math.round(changesPerSecond / questionsPerSecond)) === 0;
      const gone = first && { ...first, ready: !isAsked, terminating: isAsked };
      const changed = slice(`shop/s${i}`, `shop/s${i}`, gone ? [gone, ...others] : others);
      const version = rig.next();
      timed(() => rig.objects.setSlice(changed.key, changed, version));
      const { signal } = new AbortController();
      if (isAsked) answers.push(timed(() => rig.drains.ask(pod(`web-${i}-0`), { timeout: 30_000, signal })));
    }
    if (at % SYNC === 0) marks.push({ at, version: rig.version });
    for (const text of textsAt(at)) {
      const begun = cpu();
      JSON.parse(text.text);
      floor += cpu() - begun;
      timed(() => rig.nodes.event(text.name, parse(text.text)));
      events += 1;
    }
  }
  /** Events that come in this step: each agent's come with the pace, spread over it. */
  function textsAt(at: number): { readonly name: string; readonly text: string }[] {
    const texts: { name: string; text: string }[] = [];
    for (let i = 0; i < agents; i += 1) {
      const phase = (i * pace) / agents;
      if (Math.floor((at - phase) / pace) === Math.floor((at - step - phase) / pace)) continue;
      const since = marks.filter((mark) => mark.at > at - pace && mark.at <= at);
      const told = since.map((mark) => [services0, mark.version, at - mark.at]);
      texts.push({ name: names[i] ?? '', text: JSON.stringify({ marks: told }) });
    }
    return texts;
  }
  rig.drains.stop('the simulation is over');
  const settled = await Promise.allSettled(answers);
  const drained = settled.filter((each) => each.status === 'fulfilled' && each.value.drained).length;
  const late = settled.filter((each) => each.status === 'fulfilled' && !each.value.drained).length;
  return { events, spent, floor, changes, drained, late, pairs: rig.programming.histogram().count };
}
