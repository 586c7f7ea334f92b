/** The sentences and signs of the page, and the messages that it takes in. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Live } from '../../src/inspect/wire/live.ts';
import { SERVICE_STATES } from '../../src/inspect/wire/services.ts';
import {
  destinationText,
  goneText,
  latencyText,
  sentenceText,
  signOfHealth,
  signOfState,
  syncsText,
} from '../../src/web/page-text.ts';
import { AGENT_MESSAGES, merged } from '../../src/web/stream.ts';

const AT = '2026-01-02T12:00:00.000Z';
const later = (seconds: number) => new Date(Date.parse(AT) + seconds * 1000).toISOString();

const LIVE: Live = {
  by: { who: 'agent', mode: 'nftables', node: 'node', version: '0.0.0', at: AT },
  startedAt: AT,
  source: 'manifests',
  health: { live: true, ready: true, healthy: true, reasons: [] },
  sentence: 'All 2 Services are in the kernel',
  objects: { services: 2, slices: 2 },
  lastChange: { at: later(-4), milliseconds: 6, object: 'Service shop/web' },
  latency: [{ at: later(-30), changes: 3, p50: 4, p99: 9, most: 12 }],
  syncs: [],
  heard: [],
  faults: [],
  refused: [],
  drift: [],
  revision: 1,
};

describe('the sentence of the page', () => {
  it('goes on with the time since the last change, while the agent says nothing new', () => {
    assert.equal(
      sentenceText(LIVE, AT),
      'All 2 Services are in the kernel; last change 4 s ago, 6.0 ms from event to kernel',
    );
    assert.equal(
      sentenceText(LIVE, later(61)),
      'All 2 Services are in the kernel; last change 1 min ago, 6.0 ms from event to kernel',
    );
  });

  it('names no change where there was none, and where the agent is not well', () => {
    for (const live of [
      { ...LIVE, lastChange: null },
      { ...LIVE, sentence: 'There are no Services yet', objects: { ...LIVE.objects, services: 0 } },
      { ...LIVE, sentence: 'The agent hangs', health: { ...LIVE.health, live: false } },
    ])
      assert.equal(sentenceText(live, later(61)), live.sentence);
  });
});

describe('the page says', () => {
  it('each state by a sign of its own form', () => {
    assert.equal(new Set(SERVICE_STATES.map(signOfState)).size, SERVICE_STATES.length);
  });

  it('health by a sign: the worst counts', () => {
    assert.equal(signOfHealth(LIVE), 'ok');
    assert.equal(signOfHealth({ ...LIVE, refused: [{ service: 'shop/web', cause: '' }] }), 'warn');
    assert.equal(signOfHealth({ ...LIVE, health: { ...LIVE.health, ready: false } }), 'warn');
    assert.equal(signOfHealth({ ...LIVE, health: { ...LIVE.health, live: false } }), 'bad');
  });

  it('latency and syncs in words', () => {
    assert.equal(
      latencyText(LIVE.latency),
      '3 changes in the last 15 minutes: typically 4.0 ms from event to kernel, at most 12 ms.',
    );
    // One slow slot does not make the typical change slow.
    const slots = [...LIVE.latency, { at: AT, changes: 2, p50: 900, p99: 990, most: 1200 }];
    assert.match(latencyText(slots), /^5 changes .* typically 4\.0 ms from event to kernel, at most 1\.2 s\.$/);
    assert.equal(latencyText([]), 'No change came in the last 15 minutes.');
    assert.equal(syncsText([]), 'No sync ran in the last 15 minutes.');
  });

  it('that the agent is gone, and since when', () => {
    assert.equal(goneText(0, 1000), 'The agent does not answer.');
    assert.match(goneText(Date.parse(AT), Date.parse(later(40))), /last heard at \d\d:00:00, 40 s ago\./);
  });

  it('a frontend as explain takes it', () => {
    const frontend = { kind: 'cluster IP', address: '10.96.0.1', number: 53, protocol: 'UDP', port: 'dns' };
    assert.equal(destinationText('a/b', frontend), 'svc/a/b:dns/udp');
    assert.equal(destinationText('a/b', { ...frontend, kind: 'node port', number: 30_053 }), 'nodeport:30053/udp');
    assert.equal(
      destinationText('a/b', { ...frontend, kind: 'external IP', address: 'fd00::1', protocol: 'TCP' }),
      '[fd00::1]:53',
    );
  });
});

describe('messages of /live', () => {
  it('are put together from a whole one', () => {
    const live = merged(AGENT_MESSAGES, LIVE, { by: { ...LIVE.by, at: later(5) }, sentence: 'Not ready', revision: 2 });
    assert.deepEqual([live.sentence, live.revision, live.objects], ['Not ready', 2, LIVE.objects]);
    assert.equal(merged(AGENT_MESSAGES, undefined, LIVE), LIVE);
    assert.throws(() => merged(AGENT_MESSAGES, undefined, { sentence: 'Not ready' }), /not whole/);
  });

  it('are forgotten after 15 minutes', () => {
    assert.deepEqual(merged(AGENT_MESSAGES, LIVE, { by: { ...LIVE.by, at: later(16 * 60) } }).latency, []);
  });
});
