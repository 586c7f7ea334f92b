/** The fleet's parts that do no I/O, with a clock that a test moves, and objects in few words. */

import type { Address, Cidr, Family } from '../../src/base/address.ts';
import { fleetCore } from '../../src/fleet/core.ts';
import type { NodeObject } from '../../src/fleet/tracked-node.ts';
import type { DrainTarget, FleetEndpoint, FleetSlice } from '../../src/fleet/types.ts';
import type { Drained } from '../../src/inspect/wire/drained.ts';
import type { ProgrammedEvent } from '../../src/inspect/wire/programmed.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { serviceModel } from '../helpers/proxy/model/service-model.ts';

export const LEAVE_OUT_AFTER = 60_000;

/** The state of an endpoint in a word. */
export type State = 'ready' | 'draining' | 'ending' | 'unready' | 'published';

const STATES: Readonly<Record<State, Pick<FleetEndpoint, 'ready' | 'serving' | 'terminating'>>> = {
  ready: { ready: true, serving: true, terminating: false },
  draining: { ready: false, serving: true, terminating: true },
  ending: { ready: false, serving: false, terminating: true },
  unready: { ready: false, serving: false, terminating: false },
  published: { ready: true, serving: true, terminating: true },
};

/** Of Pod shop/NAME. */
export function endpoint(name: string, state: State, nodeName = 'n1', address = addressOf(name)): FleetEndpoint {
  return { address, pod: `shop/${name}`, nodeName, ...STATES[state] };
}

/** `web-12` has 10.1.0.12. */
export function addressOf(name: string): Address {
  return `10.1.0.${name.replace(/\D/g, '') || '1'}` as Address;
}

export function slice(
  key: string,
  of: string,
  endpoints: readonly FleetEndpoint[],
  family: Family = 'IPv4',
): FleetSlice {
  return { key, service: of, family, ports: [{ name: '', protocol: 'TCP', port: 8080 }], endpoints };
}

export const pod = (name: string): DrainTarget => ({ kind: 'pod', pod: `shop/${name}` });
export const terminating = (node: string): DrainTarget => ({ kind: 'terminating', service: 'shop/web', node });

export function facts(more: Partial<NodeObject> = {}): NodeObject {
  return { addresses: [], podCIDRs: [], isReady: true, readySince: 0, ...more };
}

export function fleetRig({ nodes = ['n1', 'n2'], isListed = true } = {}) {
  const clock = new FakeClock();
  const core = fleetCore({ clock, leaveOutAfter: LEAVE_OUT_AFTER, replica: 'r', version: 'v', source: 'server' });
  let version = 100;
  const next = () => String(++version);
  const rig = {
    clock,
    ...core,
    /** The next version of a change. */
    next,
    /** The newest version so far. */
    get version() {
      return String(version);
    },
    set(...endpoints: readonly FleetEndpoint[]) {
      core.objects.setSlice('shop/web-a', slice('shop/web-a', 'shop/web', endpoints), next());
    },
    event(node: string, event: ProgrammedEvent) {
      core.nodes.event(node, event);
    },
    /** These nodes have all so far. */
    programmed(...names: readonly string[]) {
      for (const name of names) core.nodes.event(name, { marks: [[String(version), String(version), 0]] });
    },
    join(name: string, more: Partial<NodeObject> = {}) {
      core.nodes.setNode(name, facts(more));
      core.nodes.setAgent(name, { address: '192.0.2.1' as Address, port: 10256 });
      core.nodes.setLink(name, { state: 'open' });
    },
    list() {
      for (const kind of ['services', 'slices'] as const) core.objects.synced(kind, String(version));
      core.nodes.synced('nodes');
      core.nodes.synced('agents');
    },
    ask(target: DrainTarget, timeout = 30_000, signal: AbortSignal = new AbortController().signal) {
      return watched(core.drains.ask(target, { timeout, signal }));
    },
    /** Lets what was gathered be looked at, and promises settle. */
    async settle(milliseconds = 20) {
      clock.advance(milliseconds);
      await new Promise(setImmediate);
    },
  };
  core.objects.setService('shop/web', serviceModel('shop/web'), next());
  for (const name of nodes) rig.join(name);
  if (isListed) rig.list();
  return rig;
}

/** A promise whose result can be looked at. */
function watched(promise: Promise<Drained>) {
  const seen = {
    answer: undefined as Drained | undefined,
    error: undefined as unknown,
    /** There is neither an answer nor an error. */
    get isWaiting(): boolean {
      return seen.answer === undefined && seen.error === undefined;
    },
  };
  promise.then(
    (answer) => {
      seen.answer = answer;
    },
    (error) => {
      seen.error = error;
    },
  );
  return seen;
}

export const range = (text: string) => text as Cidr;
