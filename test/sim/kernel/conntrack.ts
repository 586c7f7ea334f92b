/** conntrack of a simulated machine: flows that clients made, until they time out or somebody deletes them. */
import type { Flow } from '../../../native/conntrack.ts';
import type { Protocol } from '../../../src/base/address.ts';
import { type Address, type Family, familyOf, socketBytes } from '../../../src/base/address.ts';
import type { FlowTable, OpenFlowTable } from '../../../src/kernel/conntrack.ts';
import type { SimProcess } from '../engine/process.ts';
import type { SimTime } from '../engine/time.ts';
import { openFailure, socketFailure } from './failures.ts';

/** The two ends of a flow, and whether an answer was seen. */
export interface FlowFacts {
  readonly protocol: Protocol;
  readonly source: { readonly address: Address; readonly port: number };
  readonly destination: { readonly address: Address; readonly port: number };
  /** The source of the answers: an endpoint, or the destination where nobody translates. */
  readonly answers: { readonly address: Address; readonly port: number };
  readonly isAnswered: boolean;
}

interface Entry {
  readonly id: number;
  facts: FlowFacts;
  until: number;
}

/** Flows of one part of a listing. */
const PART = 3;

export class SimConntrack {
  readonly #time: SimTime;
  readonly #entries = new Map<string, Entry>();
  #ids = 0;
  #changes = 0;

  constructor(time: SimTime) {
    this.#time = time;
  }

  get flows(): readonly FlowFacts[] {
    this.#expire();
    return [...this.#entries.values()].map(({ facts }) => facts);
  }

  /** The flow that a client's next packet belongs to; undefined: the rules decide. */
  find(client: Pick<FlowFacts, 'protocol' | 'source' | 'destination'>): FlowFacts | undefined {
    this.#expire();
    return this.#entries.get(keyOf(client))?.facts;
  }

  /** A client's packet: it makes a flow, or keeps the one that exists, for so many seconds. */
  send(facts: FlowFacts, seconds: number): FlowFacts {
    this.#expire();
    const key = keyOf(facts);
    const until = this.#time.now + seconds * 1000;
    const found = this.#entries.get(key);
    if (found !== undefined) {
      found.until = until;
      if (facts.isAnswered) found.facts = { ...found.facts, isAnswered: true };
      return found.facts;
    }
    this.#changes += 1;
    this.#entries.set(key, { id: ++this.#ids, facts, until });
    return facts;
  }

  open(process: SimProcess): OpenFlowTable {
    return () =>
      process.call<FlowTable>({
        what: 'open conntrack',
        effect: () => this.#table(process),
        loadsFirst: true,
        undo: (table) => table.close(),
        fail: (variant) => {
          throw openFailure(variant);
        },
      });
  }

  #table(process: SimProcess): FlowTable {
    const list = (what: string, is: (facts: FlowFacts) => boolean) => (family?: Family) =>
      this.#list(
        process,
        `${what} of ${family ?? 'both families'}`,
        (facts) => (family === undefined || familyOf(facts.destination.address) === family) && is(facts),
      );
    return {
      udpFlows: list('UDP flows', ({ protocol }) => protocol === 'UDP'),
      openings: list('openings', (facts) => facts.protocol !== 'UDP' && !facts.isAnswered && isTranslated(facts)),
      delete: (_family, flows) =>
        process.callSync({
          what: `delete ${flows.length} flows`,
          effect: () => this.#delete(flows),
          fail: (variant) => {
            throw socketFailure(variant);
          },
        }),
      close: process.opened('conntrack', () => undefined),
    };
  }

  *#list(process: SimProcess, what: string, is: (facts: FlowFacts) => boolean): Generator<readonly Flow[], boolean> {
    this.#expire();
    const before = this.#changes;
    const entries = [...this.#entries.values()].filter(({ facts }) => is(facts));
    for (let at = 0; at === 0 || at < entries.length; at += PART) {
      yield process.callSync<readonly Flow[]>({
        what: `list ${what}`,
        effect: () => entries.slice(at, at + PART).map(flowOf),
        fail: (variant) => {
          throw socketFailure(variant);
        },
      });
    }
    return this.#changes !== before;
  }

  #delete(flows: readonly Flow[]): number {
    let deleted = 0;
    for (const { id } of flows) {
      const number = Buffer.from(id).readUInt32BE();
      for (const [key, entry] of this.#entries) {
        if (entry.id !== number) continue;
        this.#entries.delete(key);
        deleted += 1;
      }
    }
    return deleted;
  }

  #expire(): void {
    for (const [key, { until }] of this.#entries) if (until <= this.#time.now) this.#entries.delete(key);
  }
}

function isTranslated({ destination, answers }: FlowFacts): boolean {
  return destination.address !== answers.address || destination.port !== answers.port;
}

function keyOf({ protocol, source, destination }: Pick<FlowFacts, 'protocol' | 'source' | 'destination'>): string {
  return `${protocol} ${source.address} ${source.port} ${destination.address} ${destination.port}`;
}

function flowOf({ id, facts }: Entry): Flow {
  const number = Buffer.alloc(4);
  number.writeUInt32BE(id);
  return {
    protocol: facts.protocol,
    destination: socketBytes(facts.destination.address, facts.destination.port),
    replySource: socketBytes(facts.answers.address, facts.answers.port),
    tuple: Buffer.from(keyOf(facts)),
    id: number,
  };
}
