/**
 * No order of what the fleet's watches and the agents' watches tell makes the fleet say that an endpoint is drained while a kernel still
 * has it for new connections, unless that kernel is ahead of all that the fleet has seen.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { FleetEndpoint } from '../../src/fleet/types.ts';
import { endpoint, facts, fleetRig, pod, type State, slice } from './core-rig.ts';

const NODES = ['n1', 'n2'];
const PODS = ['web-1', 'web-2'];
const SLICES = ['shop/web-a', 'shop/web-b'];
const FIRST = 200;

/** A change of the cluster: the endpoints of a slice; undefined: it is gone. */
interface Change {
  readonly version: number;
  readonly slice: string;
  readonly endpoints: readonly FleetEndpoint[] | undefined;
}

/** The endpoints that a kernel uses for new connections when it has these slices (KEP-1669). */
function used(slices: ReadonlyMap<string, readonly FleetEndpoint[]>): Set<string> {
  const all = [...slices.values()].flat();
  const ready = all.filter((each) => each.ready);
  const uses = ready.length > 0 ? ready : all.filter((each) => each.serving && each.terminating);
  return new Set(uses.map((each) => each.pod));
}

class Kernel {
  /** The slices as an agent has received them, and as they were when the kernel last took all of them. */
  readonly received = new Map<string, readonly FleetEndpoint[]>();
  written: ReadonlyMap<string, readonly FleetEndpoint[]> = new Map();
  /** Changes that were received, and that are in the kernel. */
  at = 0;
  writtenAt = 0;
  refuses = false;
  isConnected = true;
  wasBehind = false;
  /** The agent has not synced since it started: it has no mark. */
  isNew = false;

  receive(changes: readonly Change[]): void {
    const change = changes[this.at];
    if (change === undefined) return;
    this.at += 1;
    apply(this.received, change);
  }
}

function apply(slices: Map<string, readonly FleetEndpoint[]>, { slice: key, endpoints }: Change): void {
  if (endpoints === undefined) slices.delete(key);
  else slices.set(key, endpoints);
}

const state = fc.constantFrom<State>('ready', 'draining', 'ending', 'unready');
const node = fc.integer({ min: 0, max: NODES.length - 1 });
/** Changes that are told at once. */
const count = fc.integer({ min: 1, max: 4 });
const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('change' as const),
      slice: fc.constantFrom(...SLICES),
      states: fc.option(fc.array(fc.record({ pod: fc.constantFrom(...PODS), state }), { maxLength: 3 })),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('fleet sees' as const), count }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('agent receives' as const), node, count }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('agent syncs' as const), node }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('kernel refuses' as const), node, is: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('agent restarts' as const), node }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('agent has an endpoint' as const), node, is: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('connection' as const), node, is: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('fleet restarts' as const) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('all are told all' as const) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('time' as const) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('question' as const), pod: fc.constantFrom(...PODS) }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

class World {
  readonly kernels = NODES.map(() => new Kernel());
  readonly changes: Change[] = [];
  /** Changes that the fleet has seen. */
  seen = 0;
  said = 0;
  #rig = fleetRig({ nodes: NODES });
  #questions: { readonly pod: string; readonly asked: ReturnType<ReturnType<typeof fleetRig>['ask']> }[] = [];

  constructor() {
    // The Service is known to all from the beginning.
    for (const index of NODES.keys()) this.#tell(index);
  }

  async step(each: Step): Promise<void> {
    const rig = this.#rig;
    const kernel = 'node' in each ? this.kernels[each.node] : undefined;
    if (each.kind === 'change') {
      const endpoints = each.states?.map((one) => endpoint(one.pod, one.state));
      this.changes.push({ version: FIRST + this.changes.length, slice: each.slice, endpoints });
    } else if (each.kind === 'all are told all') this.#tellAll();
    else if (each.kind === 'fleet sees') for (let i = 0; i < each.count; i += 1) this.#fleetSees();
    else if (each.kind === 'time') rig.clock.advance(20);
    else if (each.kind === 'fleet restarts') this.#fleetRestarts();
    else if (each.kind === 'question') this.#questions.push({ pod: each.pod, asked: rig.ask(pod(each.pod), 600_000) });
    else if (kernel !== undefined && 'node' in each) this.#agent(each, kernel);
    await this.#judge();
  }

  #agent(each: Extract<Step, { node: number }>, kernel: Kernel): void {
    const rig = this.#rig;
    const name = NODES[each.node] ?? '';
    if (each.kind === 'agent receives') for (let i = 0; i < each.count; i += 1) kernel.receive(this.changes);
    else if (each.kind === 'kernel refuses') kernel.refuses = each.is;
    else if (each.kind === 'agent syncs') this.#sync(each.node, kernel);
    else if (each.kind === 'agent has an endpoint') {
      rig.nodes.setAgent(name, each.is ? { address: '192.0.2.1' as never, port: 1 } : undefined);
    } else if (each.kind === 'connection') {
      kernel.isConnected = each.is;
      rig.nodes.setLink(name, each.is ? { state: 'open' } : { state: 'failed', why: 'gone' });
      if (each.is) this.#tell(each.node);
    } else {
      // The kernel keeps what it has; the list has all that there is.
      kernel.received.clear();
      for (const change of this.changes) apply(kernel.received, change);
      kernel.at = this.changes.length;
      // What it refused is not known any more.
      if (kernel.wasBehind) kernel.writtenAt = 0;
      kernel.wasBehind = false;
      kernel.isNew = true;
      rig.nodes.setLink(name, { state: 'open' });
      kernel.isConnected = true;
      this.#tell(each.node);
    }
  }

  #sync(index: number, kernel: Kernel): void {
    kernel.isNew = false;
    const isNews = kernel.at > kernel.writtenAt || kernel.wasBehind;
    if (kernel.refuses && isNews) kernel.wasBehind = true;
    else {
      kernel.written = new Map(kernel.received);
      kernel.wasBehind = false;
    }
    kernel.writtenAt = kernel.at;
    if (kernel.isConnected) this.#tell(index);
  }

  #tell(index: number): void {
    const kernel = this.kernels[index];
    if (kernel === undefined) return;
    const behind = [{ service: 'shop/web', why: 'refused', age: 0 }];
    this.#rig.event(NODES[index] ?? '', {
      marks: [kernel.isNew ? ['', '', 0] : ['150', String(FIRST + kernel.writtenAt - 1), 0]],
      behind: kernel.wasBehind ? { set: behind, gone: [] } : { set: [], gone: ['shop/web'] },
    });
  }

  #fleetSees(): void {
    const change = this.changes[this.seen];
    if (change === undefined) return;
    this.seen += 1;
    const { slice: key, endpoints, version } = change;
    this.#rig.objects.setSlice(key, endpoints && slice(key, 'shop/web', endpoints), String(version));
  }

  #tellAll(): void {
    while (this.seen < this.changes.length) this.#fleetSees();
    for (const [index, kernel] of this.kernels.entries()) {
      while (kernel.at < this.changes.length) kernel.receive(this.changes);
      this.#sync(index, kernel);
    }
  }

  /** It lists what is there: of what is gone it learns nothing. */
  #fleetRestarts(): void {
    this.#questions = [];
    this.#rig = fleetRig({ nodes: NODES, isListed: false });
    const now = new Map<string, Change>();
    for (const change of this.changes) now.set(change.slice, change);
    this.seen = this.changes.length;
    for (const { slice: key, endpoints, version } of now.values()) {
      if (endpoints) this.#rig.objects.setSlice(key, slice(key, 'shop/web', endpoints), String(version), false);
    }
    for (const [index, kernel] of this.kernels.entries()) {
      this.#rig.nodes.setNode(NODES[index] ?? '', facts());
      if (kernel.isConnected) this.#tell(index);
    }
    this.#rig.objects.synced('services', '150');
    this.#rig.objects.synced('slices', String(FIRST + this.changes.length - 1));
    this.#rig.nodes.synced('nodes');
    this.#rig.nodes.synced('agents');
  }

  async #judge(): Promise<void> {
    await Promise.resolve();
    await Promise.resolve();
    const answered = this.#questions.filter(({ asked }) => !asked.isWaiting);
    this.#questions = this.#questions.filter(({ asked }) => asked.isWaiting);
    for (const { pod: name, asked } of answered) {
      if (!asked.answer?.drained) continue;
      this.said += 1;
      for (const [index, kernel] of this.kernels.entries()) {
        const isAhead = !kernel.wasBehind && kernel.writtenAt > this.seen;
        assert.ok(
          isAhead || !used(kernel.written).has(`shop/${name}`),
          `${name} is said to be drained, and ${NODES[index]} uses it`,
        );
      }
    }
  }
}

describe('in any interleaving', () => {
  it('an endpoint that is said to be drained is in no kernel for new connections', async () => {
    let said = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 120 }), async (steps) => {
        const world = new World();
        for (const each of steps) await world.step(each);
        said += world.said;
      }),
      {
        numRuns: 400,
        examples: [
          [
            // A slice with the Pod goes just before the fleet lists, and another one says that the Pod ends.
            [
              { kind: 'change', slice: 'shop/web-b', states: [{ pod: 'web-1', state: 'ready' }] },
              { kind: 'change', slice: 'shop/web-a', states: [{ pod: 'web-1', state: 'ending' }] },
              { kind: 'all are told all' },
              { kind: 'change', slice: 'shop/web-b', states: null },
              { kind: 'fleet restarts' },
              { kind: 'question', pod: 'web-1' },
              { kind: 'time' },
            ],
          ],
        ],
      },
    );
    assert.ok(said > 300, `it was said ${said} times`);
  });
});
