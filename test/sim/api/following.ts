/** A process that follows kinds of a simulated API server with the real client and reflector, for tests. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { realClock } from '../../../src/base/clock.ts';
import { type ApiClient, apiClient } from '../../../src/cluster/api/client.ts';
import { SERVICES as IN_PROTOBUF } from '../../../src/cluster/api/decode/service.ts';
import { Reflector, type Resource } from '../../../src/cluster/api/reflector.ts';
import { Random } from '../../helpers/base/random.ts';
import { service } from '../../helpers/cluster/objects.ts';
import { Calls, SimProcess } from '../engine/process.ts';
import { SimTime } from '../engine/time.ts';
import { SimApi, type SimApiOptions } from './api.ts';

export const SERVICES: Resource = { path: '/api/v1/services' };
export const SERVICES_IN_PROTOBUF: Resource = { ...SERVICES, protobuf: IN_PROTOBUF };

/** A world with an API server. Its time is the time of the test until the test ends. */
export class ApiWorld {
  readonly random: Random;
  readonly time: SimTime;
  readonly calls: Calls;
  readonly api: SimApi;
  #pids = 100;

  constructor(t: TestContext, options: Omit<SimApiOptions, 'time'> & { readonly seed?: number } = {}) {
    const { seed = 1, ...more } = options;
    this.random = new Random(seed);
    this.time = new SimTime(this.random.fork().next);
    this.calls = new Calls(this.time);
    this.api = new SimApi({ time: this.time, ...more });
    t.after(this.time.install());
  }

  process(): SimProcess {
    this.#pids += 1;
    return new SimProcess('agent', this.#pids, this.calls);
  }

  client(process = this.process()): ApiClient {
    const credentials = { server: 'http://api.example:8080', apply: async () => undefined };
    return apiClient(credentials, { userAgent: 'test', connect: this.api.connect(process) });
  }

  follow(resource = SERVICES, pageSize = 2): Followed {
    return new Followed(this, resource, pageSize);
  }

  /** Create or replace a Service of the namespace `default`. */
  serve(name: string, clusterIP = '10.96.0.1'): void {
    const ports = [{ name: '', protocol: 'TCP', port: 80, targetPort: 80 }];
    this.api.put(service({ name, spec: { clusterIP, ports } }));
  }

  async run(milliseconds: number): Promise<void> {
    await this.time.runUntil(this.time.now + milliseconds);
  }
}

export class Followed {
  /** By key. */
  readonly objects = new Map<string, unknown>();
  /** What was told in order: `set default/a`, `gone default/a`, `synced`, `failed …`, `restored 5 3`. */
  readonly told: string[] = [];
  readonly process: SimProcess;
  readonly stop = new AbortController();
  readonly ended: Promise<void>;

  constructor(world: ApiWorld, resource: Resource, pageSize: number) {
    this.process = world.process();
    const client = world.client(this.process);
    const tell = (text: string) => this.told.push(text);
    const sink = {
      set: (key: string, object: unknown) => {
        tell(`set ${key}`);
        this.objects.set(key, object);
      },
      gone: (key: string) => {
        tell(`gone ${key}`);
        this.objects.delete(key);
      },
      synced: () => tell('synced'),
      heard: () => undefined,
      opened: () => undefined,
      failed: (error: Error) => tell(`failed ${error.message}`),
      recovered: () => tell('recovered'),
      restored: (from: string, to: string) => tell(`restored ${from} ${to}`),
    };
    this.ended = this.process.run(() => {
      const reflector = new Reflector({
        resource,
        client,
        clock: realClock,
        sink,
        random: Math.random,
        pageSize,
      });
      return reflector.run(this.stop.signal);
    });
  }

  get keys(): readonly string[] {
    return [...this.objects.keys()].sort();
  }

  get failures(): readonly string[] {
    return this.told.filter((text) => text.startsWith('failed'));
  }

  take(): readonly string[] {
    return this.told.splice(0);
  }
}

/** All is as the server has it, and is followed. */
export function assertSame(world: ApiWorld, agent: Followed): void {
  const services = world.api.objectsAt(world.api.versions).get('Service') ?? new Map();
  assert.deepEqual(agent.keys, [...services.keys()].sort());
  for (const [key, service] of services) {
    assert.equal(clusterIp(agent.objects.get(key)), clusterIp(service), key);
  }
  assert.equal(world.api.watches, 1);
}

function clusterIp(service: unknown): string {
  return (service as { readonly spec: { readonly clusterIP: string } }).spec.clusterIP;
}
