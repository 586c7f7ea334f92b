/** Made-up fleets: what `/live` of the fleet says of so many nodes. The same number makes the same fleet. */
import type { FleetLive, FleetNode } from '../../../src/inspect/wire/fleet.ts';

const MINUTE = 60_000;

/** A node that is current. */
export function fleetNode(name: string, more: Partial<FleetNode> = {}): FleetNode {
  return {
    ...{ name, state: 'current', lag: 0, why: '', mode: 'nftables', version: '1.4.0' },
    ...{ healthy: true, reasons: [], drift: 0, faults: 0, behind: 0 },
    ...more,
  };
}

const NOT_READ = 'It has not written the newest EndpointSlices';

/** Of 200 nodes about ten are not current or not well. */
function madeNode(name: string, i: number): FleetNode {
  const troubles: Readonly<Record<number, Partial<FleetNode>>> = {
    11: { state: 'behind', lag: 340, why: NOT_READ },
    23: { state: 'behind', lag: 420, why: NOT_READ },
    37: { state: 'behind', lag: 2600, why: NOT_READ },
    58: {
      state: 'behind',
      lag: 41_000,
      why: 'nft: Device or resource busy',
      healthy: false,
      reasons: ['The kernel refuses every write'],
    },
    71: { state: 'no answer', lag: 8000, why: 'connect ECONNREFUSED 10.0.0.71:10256' },
    95: { state: 'no agent', lag: 20_000, why: 'Its agent is gone; its rules still stand' },
    120: { state: 'too old', lag: 3_600_000, why: 'Its agent has no /programmed', mode: 'iptables', version: '0.9.2' },
    144: { state: 'left out', lag: 900_000, why: 'Its Node is not ready since 15 min', mode: '', version: '' },
    160: { behind: 2, faults: 1 },
    177: { drift: 3 },
  };
  const canary = i % 20 === 7 ? { version: '1.5.0-rc.1' } : {};
  return fleetNode(name, { ...canary, ...troubles[i % 200] });
}

function sentenceOf(nodes: readonly FleetNode[]): string {
  const count = (wanted: FleetNode['state']) => nodes.filter(({ state }) => state === wanted).length;
  if (count('current') === nodes.length) return `All ${nodes.length} nodes are up to date.`;
  const others = `${count('behind')} behind, ${count('no answer')} without an answer, ${count('no agent')} without an agent`;
  return `${count('current')} of ${nodes.length} nodes are up to date: ${others}.`;
}

/** `count`: nodes `node-0000`, `node-0001`… `at`: milliseconds since 1970. */
export function fleetOf(count: number, at: number): FleetLive {
  const nodes = Array.from({ length: count }, (_, i) => madeNode(`node-${String(i).padStart(4, '0')}`, i));
  const ago = (milliseconds: number) => new Date(at - milliseconds).toISOString();
  const whole = Math.floor(at / MINUTE) * MINUTE;
  return {
    ...{ replica: 'slicewire-fleet-7d9c5-x2k4p', version: '1.4.0', at: ago(0), startedAt: ago(26 * 3_600_000) },
    source: 'https://10.96.0.1:443',
    sentence: sentenceOf(nodes),
    ...{ nodes, gone: [] },
    latency: { count: 1_284_300, p50: 21, p99: 118, most: 41_000, since: ago(3_600_000) },
    minutes: Array.from({ length: 60 }, (_, i) => ({
      at: new Date(whole - (59 - i) * MINUTE).toISOString(),
      count: 20_000 + 300 * (i % 7),
      ...{ p50: 18 + (i % 5) * 2, p99: 90 + ((i * 37) % 60), most: i === 41 ? 8400 : 240 + ((i * 97) % 400) },
    })),
    slowest: ['shop/web', 'payments/api', 'search/index', 'kube-system/kube-dns'].map((service, i) => ({
      ...{ service, milliseconds: [41_000, 2600, 900, 410][i] ?? 0, at: ago(41_000 + i * 200_000) },
      node: nodes[(58 + i) % count]?.name ?? '',
    })),
    waiting: 2,
    drained: { yes: 5120, late: 3 },
  };
}
