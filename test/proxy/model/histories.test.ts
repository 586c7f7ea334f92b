/**
 * Deltas and building from nothing agree, after every step of random histories (invariant 12); and every frontend is well
 * formed. Several thousand steps; fast-check prints the seed and the shortest history of a failure.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Protocol } from '../../../src/base/address.ts';
import { type Address, FAMILIES, type Family, familyOf, socketBytes } from '../../../src/base/address.ts';
import { Cache } from '../../../src/cluster/cache/cache.ts';
import { goneEvent, SOURCE_KINDS, type SourceEvent } from '../../../src/proxy/model/events.ts';
import { Flows } from '../../../src/proxy/model/flows.ts';
import type { Endpoint, Fault, Slice } from '../../../src/proxy/model/objects.ts';
import { ProxyModel } from '../../../src/proxy/model/proxy-model.ts';
import type { Backend, Frontend, ServicePort, ServicePortKey } from '../../../src/proxy/model/service-port.ts';
import { IptablesDesired } from '../../../src/proxy/modes/iptables/desire.ts';
import { type ChainKey, splitChainKey } from '../../../src/proxy/modes/netfilter/names.ts';
import type { Chain } from '../../../src/proxy/modes/netfilter/rules.ts';
import { aStep, type Step } from '../../helpers/cluster/histories.ts';
import { nodeOf } from '../../helpers/cluster/objects.ts';
import { defaultSettings, eventOf } from '../../helpers/proxy/rig.ts';

const RUNS = 250;
const LONGEST = 60;

/** Cache, model, chains and flows, as the agent keeps them: fed by changes alone. */
class Kept {
  readonly cache = new Cache();
  readonly model = new ProxyModel({ nodeName: 'node', zone: '' });
  readonly flows = new Flows((at) => this.model.frontend(at));
  readonly faults = new Map<string, readonly Fault[]>();
  readonly chains = new Map<string, Chain>();
  readonly #desired = new Map<Family, IptablesDesired>(
    FAMILIES.map((family) => [family, new IptablesDesired(defaultSettings(family))]),
  );

  constructor() {
    for (const kind of SOURCE_KINDS) this.cache.take({ kind: 'synced', of: kind });
  }

  take(event: SourceEvent): void {
    this.cache.take(event);
  }

  update(): void {
    const services = this.cache.takeChanges();
    const location = { nodeName: 'node', zone: this.cache.node?.zone ?? '' };
    const { ports, before, faults } = this.model.update(services, this.cache, location);
    for (const [key, found] of faults) {
      if (found.length > 0) this.faults.set(key, found);
      else this.faults.delete(key);
    }
    this.flows.update(ports, before);
    for (const [family, desired] of this.#desired) {
      const mine = [...ports].filter(([key]) => key.endsWith(`/${family}`));
      for (const [key, chain] of [...desired.update(mine), ...desired.shared()]) {
        if (chain === undefined) this.chains.delete(`${family} ${key}`);
        else this.chains.set(`${family} ${key}`, chain);
      }
    }
  }
}

/** The object of this id is so now; undefined: it is gone. */
function changeOf(id: string, object: object | undefined): SourceEvent {
  if (object !== undefined) return eventOf(object);
  const [kind, key = ''] = id.split(' ');
  return goneEvent(kind === 'Service' ? 'services' : 'slices', key);
}

/** Everything at once, in the order of the ids: not that in which it came. */
function fromNothing(objects: ReadonlyMap<string, object>, zone: string | undefined): Kept {
  const fresh = new Kept();
  fresh.take(eventOf(nodeOf(zone)));
  for (const id of [...objects.keys()].sort()) fresh.take(changeOf(id, objects.get(id)));
  fresh.update();
  return fresh;
}

function assertSame(kept: Kept, fresh: Kept): void {
  const sorted = <V>(map: ReadonlyMap<string, V>) => [...map].sort(([a], [b]) => (a < b ? -1 : 1));
  assert.deepEqual(sorted(kept.model.ports), sorted(fresh.model.ports));
  assert.deepEqual(sorted(kept.faults), sorted(fresh.faults));
  assert.deepEqual(sorted(kept.chains), sorted(fresh.chains));
  assert.deepEqual(verdicts(kept), verdicts(fresh));
}

const HOSTS = [1, 2, 3, 4, 5, 6];

const EVERYWHERE = { now: () => true, before: () => true };

/**
 * What every flow that could be would be judged, with what the objects say beside it: live when a slice of the Service has
 * the endpoint ready or serving, on this node where the policy asks for it. Flows to former frontends belong to the
 * history, and were swept.
 */
function verdicts({ flows, model, cache }: Kept): string[] {
  flows.written(new Set());
  flows.swept(flows.begin());
  const told: string[] = [];
  for (const port of model.ports.values()) {
    for (const { address, port: number, role, policy } of port.frontends) {
      const is4 = port.family === 'IPv4';
      const to = address ?? ((is4 ? '192.168.77.2' : 'fd00:77::2') as Address);
      for (const host of HOSTS) {
        const endpoint = (is4 ? `10.244.1.${host}` : `fd00:244:1::${host}`) as Address;
        for (const target of [8080, 8081, 8082]) {
          const { protocol } = port;
          const ends = { destination: socketBytes(to, number), replySource: socketBytes(endpoint, target) };
          const { kind } = flows.judge({ family: port.family, protocol, ...ends }, EVERYWHERE);
          const name = port.id.slice(port.id.lastIndexOf(':') + 1);
          // A connection that opens is taken from endpoints that are gone alone.
          const mustBeHere = protocol === 'UDP' && role === 'cluster-ip' && policy === 'Local';
          const isLive = answers(cache.slicesOf(port.service), { endpoint, target, name, protocol, mustBeHere });
          assert.equal(kind, isLive ? 'live' : 'stale', `${port.key}: ${to} ${number} to ${endpoint} ${target}`);
          told.push(`${to} ${number} ${endpoint} ${target} ${kind}`);
        }
      }
    }
  }
  return told.sort();
}

interface Asked {
  readonly endpoint: Address;
  readonly target: number;
  readonly name: string;
  readonly protocol: Protocol;
  readonly mustBeHere: boolean;
}

/** Of entries for one address the one that is of most use counts: ready, then serving, then not terminating; then the first by name. */
function answers(slices: readonly Slice[], { endpoint, target, name, protocol, mustBeHere }: Asked): boolean {
  const entries = [...slices]
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .filter((slice) => slice.ports.some((p) => p.name === name && p.protocol === protocol && p.port === target))
    .flatMap((slice) => slice.endpoints.filter(({ address }) => address === endpoint));
  const rank = (e: Endpoint) => [e.ready, e.serving, !e.terminating].map(Number).join('');
  const [best] = entries.sort((a, b) => (rank(a) === rank(b) ? 0 : rank(a) > rank(b) ? -1 : 1));
  return best !== undefined && (best.ready || best.serving) && (!mustBeHere || best.nodeName === 'node');
}

function assertWellFormed({ model, chains }: Kept): void {
  const owners = new Map<string, ServicePortKey>();
  for (const [key, port] of model.ports) {
    assert.equal(key, port.key);
    assertBackends(port, port.cluster);
    assertBackends(port, port.local);
    for (const frontend of port.frontends) {
      assertFrontend(port, frontend);
      const socket = `${port.family} ${frontend.address ?? 'node'} ${port.protocol} ${frontend.port}`;
      assert.equal(owners.get(socket), undefined, `${socket} belongs to ${owners.get(socket)} and ${key}`);
      owners.set(socket, key);
    }
  }
  assertChains(chains);
}

function assertFrontend(port: ServicePort, { address, port: number, policy, empty, role }: Frontend): void {
  assert.equal(address === undefined, role === 'node-port');
  if (address !== undefined) assert.equal(familyOf(address), port.family);
  assert.ok(number >= 1 && number <= 65_535);
  const backends = policy === 'Local' ? port.local : port.cluster;
  assert.equal(empty === undefined, backends.length > 0, `${port.key} ${role}: ${backends.length} backends, ${empty}`);
  if (empty !== undefined) assert.equal(empty, port.hasAny ? 'drop' : 'reject');
}

function assertBackends({ family, key }: ServicePort, backends: readonly Backend[]): void {
  const texts = backends.map(({ text }) => text);
  assert.deepEqual(texts, [...new Set(texts)].sort(), `${key}: sorted, each once`);
  for (const { address } of backends) assert.equal(familyOf(address), family);
}

const BUILT_IN = new Set(['ACCEPT', 'DROP', 'RETURN', 'REJECT', 'MARK', 'DNAT', 'MASQUERADE']);

/** Every jump ends somewhere, every chain's name fits the kernel, and no chain of a Service is without a jump to it. */
function assertChains(chains: ReadonlyMap<string, Chain>): void {
  const reached = new Set<string>();
  for (const [at, rules] of chains) {
    const [family = '', table = '', name = ''] = at.split(' ');
    assert.ok(name.length <= 28, name);
    for (const { text } of rules) {
      const target = /-[jg] (\S+)/.exec(text)?.[1];
      if (target === undefined || BUILT_IN.has(target)) continue;
      assert.ok(chains.has(`${family} ${table} ${target}`), `${at}: ${text}`);
      reached.add(`${family} ${table} ${target}`);
    }
  }
  const ofServices = [...chains.keys()].filter((at) => {
    const { chain } = splitChainKey(at.slice(at.indexOf(' ') + 1) as ChainKey);
    return /^KUBE-(EXT|FW|SEP|DS[A-Z])-/.test(chain);
  });
  assert.deepEqual(
    ofServices.filter((at) => !reached.has(at)),
    [],
  );
}

describe('random histories', () => {
  it('end alike whether taken in step by step or at once, and every frontend is well formed (invariant 12)', () => {
    let steps = 0;
    fc.assert(
      fc.property(fc.array(aStep, { minLength: 1, maxLength: LONGEST, size: 'max' }), (history: readonly Step[]) => {
        const kept = new Kept();
        const objects = new Map<string, object>();
        let zone: string | undefined;
        kept.take(eventOf(nodeOf(zone)));
        for (const [i, step] of history.entries()) {
          if (step.kind === 'put') objects.set(step.id, step.object);
          if (step.kind === 'remove') objects.delete(step.id);
          if (step.kind === 'put' || step.kind === 'remove') kept.take(changeOf(step.id, objects.get(step.id)));
          if (step.kind === 'zone') {
            zone = step.zone;
            kept.take(eventOf(nodeOf(zone)));
          }
          // Without «sync» several steps are one delta.
          if (step.kind === 'sync' || i % 3 === 0) {
            kept.update();
            assertWellFormed(kept);
            assertSame(kept, fromNothing(objects, zone));
          }
          steps += 1;
        }
        kept.update();
        assertWellFormed(kept);
        assertSame(kept, fromNothing(objects, zone));
      }),
      { numRuns: RUNS },
    );
    assert.ok(steps > 2000, `${steps} steps`);
  });
});
