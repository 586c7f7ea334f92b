/**
 * The engine, walking what a mode reads from the kernel that it wrote, and the oracle, which knows the Services and docs/semantics.md alone, agree about
 * every frontend and about packets near one, after every sync of random histories, in every mode and both families.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type Address, FAMILIES, type Family, isLoopback } from '../../../src/base/address.ts';
import type { Fate, Packet } from '../../../src/inspect/explain/packet.ts';
import { walk } from '../../../src/inspect/explain/walk.ts';
import type { ProxyModel } from '../../../src/proxy/model/proxy-model.ts';
import type { Backend, ServicePort } from '../../../src/proxy/model/service-port.ts';
import type { FamilyView } from '../../../src/proxy/modes/view.ts';
import { aStep, type Step } from '../../helpers/cluster/histories.ts';
import { nodeOf } from '../../helpers/cluster/objects.ts';
import { fatesIn } from '../../helpers/inspect/explain/views.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import { type Expectation, expected, type OracleInput, roleAmong, type ServedFrontends } from './oracle.ts';
import { aNode, NODE, type NodeValue, WORLDS, type World } from './worlds.ts';

const RUNS = 100;
const LONGEST = 30;
/** The health check port of the histories. On the address of a Service it is left to the node in IPVS mode, whose set has no addresses. */
const HEALTH_PORT = 32_000;

interface Sender {
  readonly source: string;
  readonly device: string | undefined;
}

function sendersOf(family: Family): readonly Sender[] {
  const is4 = family === 'IPv4';
  const pod = (n: number) => ({ source: is4 ? `10.244.1.${n}` : `fd00:244:1::${n}`, device: 'cni0' });
  const near = (v4: string, v6: string) => ({ source: is4 ? v4 : v6, device: 'eth0' });
  return [
    ...[2, 3, 4].map(pod),
    near('10.244.2.9', 'fd00:244:2::9'),
    near('192.168.77.100', 'fd00:77::100'),
    near('172.16.0.1', 'fe00::1'),
    { source: NODE[family][0], device: undefined },
  ];
}

const aNearPacket = (family: Family): fc.Arbitrary<Packet> => {
  const is4 = family === 'IPv4';
  const services = is4
    ? ['10.96.0.1', '10.96.0.2', '10.96.0.3', '10.96.0.9', '192.0.2.1', '198.51.100.1', '198.51.100.2']
    : ['fd00:96::1', 'fd00:96::2', 'fd00:96::3', 'fd00:96::9', 'fd00:192::1', 'fd00:198::1'];
  const others = is4 ? ['192.168.77.3', '127.0.0.1'] : ['fd00:77::3', '::1'];
  return fc
    .record({
      protocol: fc.constantFrom('TCP', 'UDP', 'SCTP'),
      sender: fc.constantFrom(...sendersOf(family)),
      destination: fc.constantFrom(...services, ...others, ...NODE[family]),
      port: fc.constantFrom(80, 81, 82, 8080, 30_080, 30_081, HEALTH_PORT),
      state: fc.constantFrom('NEW', 'NEW', 'NEW', 'INVALID'),
    })
    .filter(({ destination, port }) => port !== HEALTH_PORT || !services.includes(destination))
    .map(({ protocol, sender, destination, port, state }) => {
      const to = destination as Address;
      // The node itself sends to its loopback addresses from one of them.
      const isToItself = isLoopback(to) && sender.device === undefined;
      const source = (isToItself ? to : sender.source) as Address;
      return { protocol, source, device: sender.device, destination: to, port, state };
    });
};

/** Packets of every sender to every frontend; node ports on every address of the node. */
function frontendPackets({ ports }: ProxyModel, family: Family): Packet[] {
  const packets: Packet[] = [];
  for (const port of [...ports.values()].filter((one) => one.family === family)) {
    for (const frontend of port.frontends) {
      const addresses = frontend.address === undefined ? NODE[family] : [frontend.address];
      for (const destination of addresses as readonly Address[]) {
        // A packet of the node to an address of its own has that address as its source.
        const isOwn = frontend.address !== undefined && (NODE[family] as readonly string[]).includes(destination);
        const itself = isOwn ? [{ source: destination, device: undefined }] : [];
        for (const { source, device } of [...sendersOf(family), ...itself]) {
          const from = source as Address;
          packets.push({
            protocol: port.protocol,
            source: from,
            device,
            destination,
            port: frontend.port,
            state: 'NEW',
          });
        }
      }
    }
  }
  return packets;
}

function servedOf(model: ProxyModel, ports: readonly ServicePort[]): ServedFrontends {
  return {
    ports,
    frontend: (at) => model.frontend(at),
    roleOf: (address) => roleAmong(model.ports.values(), address),
  };
}

class Comparison {
  readonly #world: World;
  readonly #family: Family;
  /** What was read from the kernel. */
  readonly #view: FamilyView;
  /** What the mode believes to be there, and what it wants there: after a sync all are the same. */
  readonly #others: readonly FamilyView[];
  readonly #ports: readonly ServicePort[];
  readonly #input: Omit<OracleInput, 'remembers'>;
  /** Number of packets that were balanced, and of those that an endpoint remembered. */
  balanced = 0;
  remembered = 0;

  static async of(world: World, family: Family): Promise<Comparison> {
    const { inspection } = world.rig.mode;
    const of = (views: readonly FamilyView[]) => views.find((view) => view.family === family) ?? assert.fail(family);
    const others = [inspection.believed(), inspection.desired()].map(of);
    return new Comparison(world, family, { view: of(await inspection.read(NEVER)), others });
  }

  constructor(
    world: World,
    family: Family,
    { view, others }: { readonly view: FamilyView; readonly others: readonly FamilyView[] },
  ) {
    const { model } = world.rig;
    this.#world = world;
    this.#family = family;
    this.#view = view;
    this.#others = others;
    this.#ports = [...model.ports.values()].filter((port) => port.family === family);
    const localAddresses = new Set<string>(NODE[family]);
    this.#input = { services: servedOf(model, this.#ports), mode: world.mode(family), localAddresses };
  }

  check(packet: Packet): void {
    const { localAddresses } = this.#input;
    const wanted = expected(packet, { ...this.#input, remembers: () => false });
    this.#assertSame(packet, wanted, fatesIn(this.#view, packet, { localAddresses, remembered: new Set() }));
    this.balanced += wanted[0]?.kind === 'balanced' ? 1 : 0;
    this.#checkMemory(packet, wanted);
  }

  /** The fates in what the mode believes and wants, too. */
  checkOthers(packet: Packet): void {
    const { localAddresses } = this.#input;
    const wanted = expected(packet, { ...this.#input, remembers: () => false });
    for (const view of this.#others) {
      this.#assertSame(packet, wanted, fatesIn(view, packet, { localAddresses, remembered: new Set() }));
    }
  }

  /** The last of the endpoints remembers the client, where there are several. */
  #checkMemory(packet: Packet, wanted: readonly Expectation[]): void {
    const text = wanted.at(-1)?.backend ?? '';
    if (wanted.length < 2) return;
    const { localAddresses } = this.#input;
    const { memories } = walk(this.#view, packet, { localAddresses, remembered: new Set() });
    const asked = [...memories.lists, ...memories.destinations];
    const knowing = this.#ports.flatMap((port) => {
      const backend = [...port.cluster, ...port.local].find((one) => one.text === text);
      return backend === undefined ? [] : [...this.#world.memories(port, backend)];
    });
    const remembered = new Set(knowing.filter((name) => asked.includes(name)));
    const remembers = (_: ServicePort, backend: Backend) => backend.text === text;
    const known = expected(packet, { ...this.#input, remembers });
    this.#assertSame(packet, known, fatesIn(this.#view, packet, { localAddresses, remembered }));
    assert.equal(remembered.size > 0, known.length === 1, 'the memories that were asked are those of the endpoints');
    this.remembered += known.length === 1 ? 1 : 0;
  }

  #assertSame(packet: Packet, wanted: readonly Expectation[], found: readonly Fate[]): void {
    const [want, have] = [wanted, found].map((fates) => this.#shares(fates)) as [Shares, Shares];
    const same =
      want.size === have.size && [...want].every(([key, share]) => Math.abs((have.get(key) ?? 0) - share) < 1e-6);
    if (same) return;
    const ways = found.map(({ way, ...fate }) => [fate, ...way.map(({ chain, rule }) => `${chain}: ${rule}`)]);
    const told = JSON.stringify({ family: this.#family, packet, node: this.#input.mode, ways }, undefined, 1);
    assert.deepEqual(Object.fromEntries(have), Object.fromEntries(want), told);
  }

  #shares(fates: readonly Expectation[]): Shares {
    const shares: Shares = new Map();
    for (const { kind, backend, masqueraded, probability } of fates) {
      const key = `${kind} ${backend} ${masqueraded}`;
      shares.set(key, (shares.get(key) ?? 0) + probability);
    }
    return shares;
  }
}

type Shares = Map<string, number>;

async function assertAgree(
  make: (value: NodeValue) => World,
  {
    node,
    history,
    near,
  }: { node: NodeValue; history: readonly Step[]; near: Readonly<Record<Family, readonly Packet[]>> },
): Promise<{ balanced: number; remembered: number }> {
  const world = make(node);
  const { rig } = world;
  const sum = { balanced: 0, remembered: 0 };
  for (const step of [...history, { kind: 'sync' } as const]) {
    if (step.kind === 'put') rig.put(step.object);
    else if (step.kind === 'remove') rig.remove(...(step.id.split(' ') as ['Service', string]));
    else if (step.kind === 'zone') rig.put(nodeOf(step.zone));
    else {
      assert.equal((await rig.sync()).outcome, 'complete');
      for (const family of FAMILIES) {
        const comparison = await Comparison.of(world, family);
        for (const packet of [...frontendPackets(rig.model, family), ...near[family]]) comparison.check(packet);
        for (const packet of near[family]) comparison.checkOthers(packet);
        sum.balanced += comparison.balanced;
        sum.remembered += comparison.remembered;
      }
    }
  }
  return sum;
}

describe('the engine on the kernel, and the oracle', () => {
  for (const [mode, make] of Object.entries(WORLDS)) {
    it(`agree after every sync of random histories: ${mode}`, async () => {
      const sum = { balanced: 0, remembered: 0 };
      const near = fc.record({
        IPv4: fc.array(aNearPacket('IPv4'), { minLength: 10, maxLength: 30 }),
        IPv6: fc.array(aNearPacket('IPv6'), { minLength: 10, maxLength: 30 }),
      });
      const history = fc.array(aStep, { minLength: 5, maxLength: LONGEST, size: 'max' });
      await fc.assert(
        fc.asyncProperty(aNode, history, near, async (node, steps, packets) => {
          const { balanced, remembered } = await assertAgree(make, { node, history: steps, near: packets });
          sum.balanced += balanced;
          sum.remembered += remembered;
        }),
        { numRuns: RUNS },
      );
      assert.ok(sum.balanced > 500 && sum.remembered > 50, JSON.stringify(sum));
    });
  }
});
