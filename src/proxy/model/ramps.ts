/**
 * Slow start (docs/traffic.md, k8s#96902): an endpoint that became ready begins with a tenth of its weight and has all of it after the time that
 * its Service asks for. It grows by steps, which every node makes at the same times: they count from the change that the slice was written
 * for. Time is injected; no I/O.
 */
import type { Address } from '../../base/address.ts';
import type { Clock } from '../../base/clock.ts';
import { type Endpoint, type ServiceKey, type Slice, USUAL_WEIGHT } from './objects.ts';

/** The parts of its weight that an endpoint has in each fifth of the time. */
const PARTS: readonly number[] = [0.1, 0.28, 0.46, 0.64, 0.82];

/** Limit of the endpoints that grow at one time. Others have their whole weight at once. */
export const MAX_RAMPS = 2000;

/** An endpoint that grows. */
export interface Ramp {
  readonly service: ServiceKey;
  readonly address: Address;
  /** Milliseconds since 1970: the time from which it counts. */
  readonly since: number;
}

/** The endpoints that grow, and the moment of their weights in milliseconds since 1970. */
export interface RampsMoment {
  readonly at: number;
  readonly ramps: readonly Ramp[];
}

/** The moment of no endpoint. */
export const NOTHING_GROWS: RampsMoment = { at: 0, ramps: [] };

interface RampsParts {
  readonly clock: Pick<Clock, 'wall' | 'after'>;
  /** Milliseconds of a Service's slow start; undefined for none. */
  readonly durationOf: (service: ServiceKey) => number | undefined;
  /** Called with each Service whose weights made a step, and then once. */
  readonly onStep: (service: ServiceKey) => void;
  readonly onSteps: () => void;
  /** Called when an endpoint begins or ends to grow. */
  readonly onChange: () => void;
}

export class Ramps {
  readonly #parts: RampsParts;
  readonly #since = new Map<ServiceKey, Map<Address, number>>();
  #count = 0;
  #moment: RampsMoment | undefined;
  /** The time up to which steps were made: the weights are those of then, and change by steps alone. */
  #seen: number;
  #cancel: (() => void) | undefined;
  #isStopped = false;

  constructor(parts: RampsParts) {
    this.#parts = parts;
    this.#seen = parts.clock.wall();
  }

  /** All endpoints that grow. */
  *all(): Generator<Ramp> {
    for (const [service, since] of this.#since)
      for (const [address, at] of since) yield { service, address, since: at };
  }

  /** Takes the ready endpoints of a Service before and after a change. `triggeredAt`: its time, in milliseconds since 1970; 0 when unknown. */
  changed(service: ServiceKey, before: ReadonlySet<Address>, now: ReadonlySet<Address>, triggeredAt: number): void {
    this.#step();
    const since = triggeredAt > 0 && triggeredAt < this.#seen ? triggeredAt : this.#seen;
    let isChanged = false;
    for (const address of now)
      if (!before.has(address)) isChanged = this.#begin({ service, address, since }) || isChanged;
    for (const address of this.#since.get(service)?.keys() ?? []) {
      if (!now.has(address)) isChanged = this.#end(service, address) || isChanged;
    }
    if (!isChanged) return;
    this.#parts.onChange();
    this.#schedule();
  }

  /** Goes on with endpoints that grew before a restart. */
  restore(ramps: Iterable<Ramp>): void {
    this.#step();
    for (const ramp of ramps) {
      if (this.#begin({ ...ramp, since: Math.min(ramp.since, this.#seen) })) this.#parts.onStep(ramp.service);
    }
    this.#schedule();
  }

  /** The endpoints that grow now: the same object until that changes. */
  get moment(): RampsMoment {
    this.#moment ??= this.#count === 0 ? NOTHING_GROWS : { at: this.#seen, ramps: [...this.all()] };
    return this.#moment;
  }

  /** Replaces all by those of a recorded moment. Their Services count as changed, and so do those before. */
  replay({ at, ramps }: RampsMoment): void {
    const before = new Set(this.#since.keys());
    this.#since.clear();
    this.#count = 0;
    this.#moment = undefined;
    this.#seen = at;
    for (const ramp of ramps) this.#begin(ramp);
    for (const service of before.union(new Set(this.#since.keys()))) this.#parts.onStep(service);
  }

  /** A Service has another time: its endpoints are where they would be with it from the beginning. */
  retimed(): void {
    this.#step();
  }

  /** Makes no step any more. */
  stop(): void {
    this.#cancel?.();
    this.#isStopped = true;
  }

  /** The endpoints of a Service have their whole weights from now on. */
  forget(service: ServiceKey): void {
    const count = this.#since.get(service)?.size ?? 0;
    if (count === 0) return;
    this.#since.delete(service);
    this.#count -= count;
    this.#moment = undefined;
    this.#parts.onChange();
  }

  /** The slices with the weights of this moment. */
  applied(service: ServiceKey, slices: readonly Slice[]): readonly Slice[] {
    const since = this.#since.get(service);
    const duration = this.#parts.durationOf(service);
    if (since === undefined || duration === undefined) return slices;
    const weighted = (endpoint: Endpoint): Endpoint => {
      const at = since.get(endpoint.address);
      if (at === undefined || endpoint.weight === 0) return endpoint;
      const part = PARTS[stepAt(this.#seen - at, duration)];
      if (part === undefined) return endpoint;
      const full = endpoint.weight ?? USUAL_WEIGHT;
      return { ...endpoint, weight: Math.max(1, Math.round(full * part)), growsTo: full };
    };
    return slices.map((slice) => ({ ...slice, endpoints: slice.endpoints.map(weighted) }));
  }

  /** The clock was set back: what begins in the future begins now. */
  #anchor(wall: number): void {
    for (const since of this.#since.values())
      for (const [address, at] of since) if (at > wall) since.set(address, wall);
  }

  /** Returns whether it grows now. */
  #begin({ service, address, since }: Ramp): boolean {
    const duration = this.#parts.durationOf(service);
    if (duration === undefined || stepAt(this.#seen - since, duration) >= PARTS.length) return false;
    const known = this.#since.get(service) ?? new Map<Address, number>();
    if (!known.has(address)) {
      if (this.#count >= MAX_RAMPS) return false;
      this.#count += 1;
    }
    this.#since.set(service, known.set(address, since));
    this.#moment = undefined;
    return true;
  }

  #end(service: ServiceKey, address: Address): boolean {
    const known = this.#since.get(service);
    if (known?.delete(address) !== true) return false;
    this.#count -= 1;
    this.#moment = undefined;
    if (known.size === 0) this.#since.delete(service);
    return true;
  }

  /** Waits for the next step of any endpoint. */
  #schedule(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    if (this.#isStopped) return;
    let next = Number.POSITIVE_INFINITY;
    for (const { service, since } of this.all()) {
      const fifth = (this.#parts.durationOf(service) ?? 0) / PARTS.length;
      next = Math.min(next, since + (stepAt(this.#seen - since, fifth * PARTS.length) + 1) * fifth);
    }
    if (next === Number.POSITIVE_INFINITY) return;
    const { clock } = this.#parts;
    this.#cancel = clock.after(Math.max(1, next - clock.wall()), () => this.#step());
  }

  #step(): void {
    const [before, wall] = [this.#seen, this.#parts.clock.wall()];
    this.#seen = wall;
    this.#moment = undefined;
    if (wall < before) this.#anchor(wall);
    let isChanged = false;
    const stepped = new Set<ServiceKey>();
    for (const { service, address, since } of [...this.all()]) {
      const duration = this.#parts.durationOf(service) ?? 0;
      const step = stepAt(wall - since, duration);
      if (step > stepAt(before - since, duration)) stepped.add(service);
      if (step >= PARTS.length) isChanged = this.#end(service, address) || isChanged;
    }
    for (const service of stepped) this.#parts.onStep(service);
    if (isChanged) this.#parts.onChange();
    this.#schedule();
    if (stepped.size > 0) this.#parts.onSteps();
  }
}

/** The fifth of the time in which an endpoint is, from 0; 5 or more when it has its whole weight. */
function stepAt(elapsed: number, duration: number): number {
  return duration <= 0 ? PARTS.length : Math.floor((Math.max(0, elapsed) * PARTS.length) / duration);
}

/** The addresses of the endpoints that are ready. */
export function readyAddresses(slices: Iterable<Slice>): Set<Address> {
  const ready = new Set<Address>();
  for (const { endpoints } of slices) for (const one of endpoints) if (one.ready) ready.add(one.address);
  return ready;
}
