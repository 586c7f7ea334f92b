/** A rig with a flight recorder, as the agent wires both, on a clock that the test moves. */

import { noteChange } from '../../../src/agent/feed.ts';
import { Recorder, type Tap } from '../../../src/inspect/history/recorder.ts';
import type { Trigger } from '../../../src/inspect/history/records.ts';
import { ChangeLedger, writtenChanges } from '../../../src/proxy/ledger/change-ledger.ts';
import type { SourceEvent } from '../../../src/proxy/model/events.ts';
import { goneEvent } from '../../../src/proxy/model/events.ts';
import type { NodeView, Service, Slice } from '../../../src/proxy/model/objects.ts';
import type { Plan } from '../../../src/proxy/reconcile/step.ts';
import type { SyncReport } from '../../../src/proxy/sync/sync-results.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { eventOf, type GrowingClock, Rig } from '../../helpers/proxy/rig.ts';

export interface RecordedRigOptions {
  /** Bytes of the recorder. */
  readonly most?: number;
  readonly refuse?: (line: string) => boolean;
  /** Instead of iptables mode over a kernel in memory. */
  readonly build?: (recorder: Recorder, growing: GrowingClock) => Rig;
}

export class RecordedRig {
  readonly clock = new FakeClock();
  readonly iptables: FakeIptables;
  readonly rig: Rig;
  readonly recorder: Recorder;
  readonly ledger: ChangeLedger;
  readonly #tap: Tap;

  constructor({ most, refuse, build }: RecordedRigOptions = {}) {
    this.iptables = new FakeIptables(refuse === undefined ? {} : { refuse });
    const recorder = new Recorder(this.clock, most);
    this.recorder = recorder;
    const growing = { clock: this.clock, onSteps: () => undefined, onChange: () => undefined };
    const onPlan = (plan: Plan) => recorder.planned(plan);
    this.rig = build?.(recorder, growing) ?? new Rig({ commands: this.iptables, growing, onPlan });
    const { cache } = this.rig;
    this.ledger = new ChangeLedger({
      clock: this.clock,
      hasChanges: () => cache.hasChanges,
      numbers: recorder.numbers,
    });
    this.#tap = this.recorder.tap(cache, this.ledger);
  }

  /** Takes API objects. */
  put(...objects: readonly object[]): this {
    for (const object of objects) {
      const { resourceVersion } = (object as { metadata: { resourceVersion?: string } }).metadata;
      this.#take({ ...eventOf(object), ...(resourceVersion === undefined ? {} : { resourceVersion }) });
    }
    return this;
  }

  remove(kind: 'services' | 'slices', key: string): this {
    this.#take(goneEvent(kind, key));
    return this;
  }

  /** These Nodes do not answer, and these Services have endpoints there. */
  suspect(nodes: readonly string[], services: readonly string[]): void {
    const { cache } = this.rig;
    const before = cache.node;
    cache.own.suspect(nodes, services);
    const { node } = cache;
    if (node !== undefined) this.#changed({ kind: 'node', key: node.name, node, faults: [] }, before);
  }

  #take(event: SourceEvent): void {
    const before = this.#objectOf(event);
    this.rig.cache.take(event);
    if (this.#objectOf(event) !== before) this.#changed(event, before);
  }

  #changed(event: SourceEvent, before: Service | Slice | NodeView | undefined): void {
    noteChange({ ledger: this.ledger, tap: this.#tap }, event, before, '');
  }

  #begin(trigger: Trigger): void {
    this.recorder.syncBegan({ trigger, by: '' }, this.#tap);
    this.ledger.syncBegan();
  }

  #end(report: SyncReport): void {
    this.recorder.syncEnded(report, this.ledger.syncEnded(writtenChanges(report)));
    this.ledger.confirmed();
  }

  #objectOf(event: SourceEvent): Service | Slice | NodeView | undefined {
    const { cache } = this.rig;
    if (event.kind === 'service') return cache.service(event.key);
    return event.kind === 'slice' ? cache.slices.get(event.key) : cache.node;
  }

  /** The report of a sync that wrote everything, without a sync. */
  pretendSync(): void {
    this.#begin('changes');
    this.clock.advance(10);
    const work = { services: 0, rendered: 0, compared: 0, steps: 0 };
    const times = { duration: 10, reading: 0, desiring: 1, writing: 9, drift: [] };
    this.#end({ outcome: 'complete', applied: 1, failed: [], skipped: [], work, ...times });
  }

  /** A sync of some milliseconds; `during` is called in the middle of it. */
  async sync(
    trigger: Trigger = 'changes',
    milliseconds = 10,
    during: () => void = () => undefined,
  ): Promise<SyncReport> {
    this.#begin(trigger);
    const syncing = this.rig.sync();
    this.clock.advance(milliseconds / 2);
    during();
    const report = await syncing;
    this.clock.advance(milliseconds / 2);
    this.#end(report);
    return report;
  }
}
