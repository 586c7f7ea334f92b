/** The watch over a made-up cluster: a connection table and machines that answer or do not, and time that the test moves. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { type FailoverEvent, FailoverWatch } from '../../../src/agent/failover/dead-nodes.ts';
import type { Reply } from '../../../src/agent/failover/suspicion.ts';
import { type Address, familyOf, socketBytes } from '../../../src/base/address.ts';
import { decodeService } from '../../../src/cluster/api/decode/service.ts';
import { decodeSlice } from '../../../src/cluster/api/decode/slice.ts';
import { Cache } from '../../../src/cluster/cache/cache.ts';
import type { Flow, FlowTable } from '../../../src/kernel/conntrack.ts';
import { ProxyModel } from '../../../src/proxy/model/proxy-model.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';

const POD_PORT = 8080;

/** The n-th pod of a Node: `pod(2, 1)` is 10.244.2.1 on node-2. node-1 is that of the agent. */
export function pod(node: number, n: number): Address {
  return `10.244.${node}.${n}` as Address;
}

export function nodeName(node: number): string {
  return `node-${node}`;
}

/** A Service and its pods, each by its Node and number. */
export interface Deployed {
  readonly name: string;
  readonly namespace?: string;
  /** Its cluster IP is 10.96.0.N. */
  readonly ip: number;
  readonly pods: readonly (readonly [node: number, n: number])[];
  /** Pods that are not ready. */
  readonly unready?: readonly (readonly [node: number, n: number])[];
  readonly protocol?: 'TCP' | 'UDP' | 'SCTP';
}

export class World {
  readonly clock = new FakeClock();
  readonly cache = new Cache();
  readonly model = new ProxyModel({ nodeName: nodeName(1), zone: '' });
  readonly events: FailoverEvent[] = [];
  /** Verdicts about Nodes that are no suspects. */
  readonly spared: string[] = [];
  /** `address:port` of each question. */
  readonly asked: string[] = [];
  /** What answers at an address and port; by default every pod does, and refuses other ports. */
  reply: (address: Address, port: number) => Reply = () => 'answer';
  /** The kernel refuses a reading for this reason. */
  refusal: string | undefined;
  readings = 0;
  /** Times that the watch read the slices of one Service. */
  unpacked = 0;
  readonly #stop = new AbortController();
  readonly #flows = new Map<number, Flow>();
  #next = 1;

  constructor(test: TestContext, ...deployed: readonly Deployed[]) {
    test.after(() => this.#stop.abort());
    for (const one of deployed) this.deploy(one);
  }

  /** Start the watch. */
  run(onFailure: (error: unknown) => void = (error) => assert.fail(String(error))): void {
    const watch = new FailoverWatch({
      clock: this.clock,
      open: () => this.#open(),
      probe: ({ address, port }, milliseconds) => this.#probe(address, port, milliseconds),
      nodeName: nodeName(1),
      frontend: (at) => this.model.frontend(at),
      slicesOf: (key) => {
        this.unpacked += 1;
        return this.cache.slicesOf(key);
      },
      slices: () => this.cache.slices.all(),
      random: () => 0,
      suspect: (nodes, services) => {
        this.cache.own.suspect(nodes, services);
        this.#sync();
      },
      onEvent: (event) => {
        if (event.kind === 'spared') this.spared.push(event.verdict);
        else this.events.push(event);
      },
    });
    watch.run(this.#stop.signal).catch(onFailure);
  }

  deploy({ name, namespace = 'default', ip, pods, unready = [], protocol = 'TCP' }: Deployed): void {
    const key = `${namespace}/${name}`;
    const spec = { clusterIP: `10.96.0.${ip}`, ports: [{ port: 80, protocol }] };
    this.cache.take(decodeService(service({ name, namespace, spec }), key));
    const of = (ready: boolean) => (each: readonly [number, number]) => ({
      ...{ addresses: [pod(...each)], nodeName: nodeName(each[0]), conditions: { ready } },
    });
    const ports = [{ name: '', port: POD_PORT, protocol }];
    const endpoints = [...pods.map(of(true)), ...unready.map(of(false))];
    this.cache.take(decodeSlice(slice({ name: `${name}-1`, namespace, service: name, ports, endpoints }), `${key}-1`));
    this.#sync();
  }

  /** A client's connection to a pod by a Service, or by the address of it; the result ends it. */
  connect(ip: number | Address, to: Address, protocol: Flow['protocol'] = 'TCP'): () => void {
    const vip = typeof ip === 'number' ? (`10.96.0.${ip}` as Address) : ip;
    const number = this.#next++;
    const id = new Uint8Array(4);
    new DataView(id.buffer).setUint32(0, number);
    this.#flows.set(number, {
      family: familyOf(vip),
      protocol,
      destination: socketBytes(vip, 80),
      replySource: socketBytes(to, POD_PORT),
      tuple: new Uint8Array(),
      id,
    });
    return () => this.#flows.delete(number);
  }

  /** Let time pass, in steps in which all that is due happens. */
  async pass(milliseconds: number): Promise<void> {
    for (let left = milliseconds; left > 0; left -= 100) {
      this.clock.advance(Math.min(100, left));
      for (let n = 0; n < 20; n++) await turn();
    }
  }

  /** Addresses that get new connections to a Service. */
  backends(name: string): readonly string[] {
    return this.model.portsOf(`default/${name}`).flatMap(({ cluster }) => cluster.map(({ address }) => address));
  }

  get kinds(): readonly string[] {
    return this.events.map((event) => ('node' in event ? `${event.kind} ${event.node}` : event.kind));
  }

  #sync(): void {
    const { suspects } = this.cache.own;
    const services = this.cache.takeChanges();
    this.model.update(services, this.cache, { nodeName: nodeName(1), zone: '', suspects });
  }

  #open(): Promise<FlowTable> {
    this.readings += 1;
    if (this.refusal !== undefined) return Promise.reject(new Error(this.refusal));
    const flows = [...this.#flows.values()];
    return Promise.resolve({
      *udpFlows() {
        yield [];
        return false;
      },
      *openings() {
        yield [];
        return false;
      },
      *translated() {
        yield [];
        return false;
      },
      *unanswered() {
        yield flows;
        return false;
      },
      *entries() {
        yield [];
        return false;
      },
      delete: () => 0,
      close: () => undefined,
    });
  }

  /** An answer comes at once, and silence lasts as long as anybody waits. */
  #probe(address: Address, port: number, milliseconds: number): Promise<Reply> {
    this.asked.push(`${address}:${port}`);
    const reply = this.reply(address, port);
    if (reply !== 'silence') return Promise.resolve(reply);
    return new Promise((resolve) => this.clock.after(milliseconds, () => resolve(reply)));
  }
}
