/** Which ways through the rules count as broken. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { PathResult } from '../../../src/agent/datapath/path-health.ts';
import { PathHealth } from '../../../src/agent/datapath/path-health.ts';

const of = (family: 'IPv4' | 'IPv6') => ({ from: 'node', family }) as const;
const passed = (family: 'IPv4' | 'IPv6' = 'IPv4'): PathResult => ({ ...of(family), kind: 'passed' });
const failed = (family: 'IPv4' | 'IPv6' = 'IPv4'): PathResult => ({
  ...of(family),
  kind: 'failed',
  text: `${family} fails`,
});
const unknown = (): PathResult => ({ ...of('IPv4'), kind: 'unknown', text: 'no route' });

it('a way is broken after two failures in a row, and whole again after three successes', () => {
  const health = new PathHealth();
  const changes = [
    failed(),
    passed(),
    failed(),
    failed(),
    failed(),
    passed(),
    passed(),
    failed(),
    passed(),
    passed(),
    passed(),
    passed(),
  ].map((result) => health.round([result]).map(({ isBroken }) => isBroken));
  assert.deepEqual(changes, [[], [], [], [true], [], [], [], [], [], [], [false], []]);
  assert.deepEqual(health.reasons, []);
});

it('each family counts for itself', () => {
  const health = new PathHealth();
  health.round([failed('IPv4'), passed('IPv6')]);
  health.round([failed('IPv4'), failed('IPv6')]);
  assert.deepEqual(health.reasons, ['IPv4 fails']);
  assert.deepEqual(
    health.states.map(({ family, isBroken, kind }) => [family, isBroken, kind]),
    [
      ['IPv4', true, 'failed'],
      ['IPv6', false, 'failed'],
    ],
  );
});

it('a result that says nothing changes nothing, and a broken way stays broken until it is known to be whole', () => {
  const health = new PathHealth();
  for (const result of [failed(), unknown(), failed(), unknown()]) health.round([result]);
  assert.equal(health.reasons.length, 1);
  health.round([passed()]);
  assert.deepEqual(health.reasons, ['connections from the node through the IPv4 rules failed just before']);
});
