/** The texts of `status` and `history`, as people read them. */

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import {
  bytesText,
  clockTime,
  columns,
  countText,
  millisecondsText,
  timeBetween,
} from '../../../src/inspect/wire/format.ts';
import { type History, historySchema, type RecordedSync } from '../../../src/inspect/wire/history.ts';
import { type Status, statusSchema } from '../../../src/inspect/wire/status.ts';
import { historyText, statusText } from '../../../src/inspect/wire/status-text.ts';
import type { Drift } from '../../../src/proxy/model/drift.ts';

const BY = {
  who: 'agent',
  mode: 'nftables',
  node: 'node-a',
  version: '1.2.3',
  at: '2026-11-22T12:03:04.567Z',
} as const;

const SYNC: RecordedSync = {
  number: 12,
  at: '2026-11-22T12:03:00.000Z',
  trigger: 'changes',
  by: '',
  outcome: 'complete',
  changes: 3,
  services: ['shop/web', 'shop/api'],
  steps: 4,
  milliseconds: { all: 4.25, reading: 0, desiring: 0.5, writing: 3 },
  drift: [],
  failed: [],
};

const CHANGED: Drift = {
  ...{ family: 'IPv4', kind: 'chain', table: 'nat', name: 'KUBE-SERVICES', target: '' },
  difference: { kind: 'gone' },
};

const STATUS: Status = {
  apiVersion: 'slicewire/v1',
  kind: 'Status',
  by: BY,
  pid: 4711,
  startedAt: '2026-11-22T08:00:00.000Z',
  families: ['IPv4', 'IPv6'],
  source: 'the API server of /etc/kubeconfig',
  health: { live: true, ready: true, healthy: true, reasons: [] },
  heard: [
    { of: 'Services', at: '2026-11-22T12:03:02.567Z', lost: null },
    { of: 'EndpointSlices', at: null, lost: { since: '2026-11-22T12:00:00.000Z', cause: '403' } },
  ],
  objects: { services: 1234, slices: 1 },
  syncs: [SYNC],
  latency: { changes: 1, p50: 3, p99: 12, most: 1500, since: '2026-11-22T11:30:00.000Z' },
  faults: [],
  refused: [],
  drift: [],
  history: { reachesBackTo: '2026-11-21T12:00:00.000Z', bytes: 1_572_864, folder: '' },
};

describe('texts of answers', () => {
  const zone = process.env.TZ;
  before(() => {
    process.env.TZ = 'UTC';
  });
  after(() => {
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
  });

  it('tell the status of a healthy agent', () => {
    assert.deepEqual(statusSchema.parse(STATUS), STATUS);
    assert.equal(
      statusText(STATUS),
      `slicewire 1.2.3 on node-a: nftables mode, IPv4 and IPv6, pid 4711, for 4 h 3 min
Health: healthy, ready

Source: the API server of /etc/kubeconfig (1,234 Services, 1 EndpointSlice)
  Services        heard of 2 s ago
  EndpointSlices  not heard of yet; not followed since 2026-11-22T12:00:00.000Z: 403
Changes reached the kernel: half within 3.0 ms, 99 % within 12 ms, all within 1.5 s (1 change since 11:30:00.000)

Last syncs, the latest first:
  sync  began         why      outcome   changes  writes  took    read  render  write   Services
    12  12:03:00.000  changes  complete        3       4  4.3 ms  0 ms  0.5 ms  3.0 ms  shop/web shop/api

History: reaches back to 2026-11-21 12:00:00.000 (1 d, 1.5 MiB in memory)`,
    );
  });

  it('tell what is wrong with an agent', () => {
    const fault = (i: number) => {
      const what = {
        field: 'spec.clusterIP',
        value: 'x',
        problem: 'is no address',
        effect: 'object set aside',
      } as const;
      return { kind: 'Service', object: `shop/s${i}`, ...what };
    };
    const status: Status = {
      ...STATUS,
      health: { live: true, ready: false, healthy: false, reasons: ['IPv4: the kernel cannot be written: EPERM'] },
      syncs: [
        {
          ...SYNC,
          outcome: 'failed',
          failed: ['IPv4: EPERM\n  1: *nat\n> 4: -A KU…'],
          drift: [CHANGED],
        },
      ],
      latency: null,
      refused: [{ service: 'shop/web', cause: 'invalid\n  1: *nat\n> 4: -A KUBE-SERVICES' }],
      faults: Array.from({ length: 22 }, (_, i) => fault(i)),
      drift: [{ ...CHANGED, at: '2026-11-22T12:00:00.000Z', by: '' }],
      history: { reachesBackTo: '2026-11-22T12:00:00.000Z', bytes: 12, folder: '/var/lib/slicewire' },
    };
    const text = statusText(status);
    for (const part of [
      'Health: not healthy, not ready\n  IPv4: the kernel cannot be written: EPERM\n',
      'Changes reached the kernel: none in the last hour\n',
      '      not written: IPv4: EPERM\n      another program had changed IPv4 nat KUBE-SERVICES (gone)\n',
      '\nThe kernel refuses 1 Service:\n  shop/web: invalid\n\n',
      '\n22 faults of objects:\n  Service shop/s0: spec.clusterIP: x: is no address (object set aside)\n',
      '  and 2 more faults; -o json lists them all\n',
      '\nChanged by other programs, and repaired:\n  12:00:00.000  IPv4 nat KUBE-SERVICES (gone)\n',
      'History: reaches back to 12:00:00.000 (3 min, 12 bytes in memory, and more in /var/lib/slicewire)',
    ]) {
      assert.ok(text.includes(part), `${part}\nis not in\n${text}`);
    }
    assert.ok(!text.includes('shop/s20'));
  });

  it('tell up to which versions the kernel is, where there are versions', () => {
    const text = (programmed: Status['programmed']) => statusText({ ...STATUS, programmed });
    assert.match(
      text({ services: '4711', slices: '' }),
      /^In the kernel: Services up to version 4711, EndpointSlices up to version none$/m,
    );
    assert.doesNotMatch(text({ services: '', slices: '' }), /In the kernel/);
    assert.doesNotMatch(text(null), /In the kernel/);
  });

  it('tell the status where no agent was asked', () => {
    const health = { live: false, ready: false, healthy: true, reasons: ['no agent was asked'] };
    const status: Status = {
      ...STATUS,
      by: { ...BY, who: 'command' },
      startedAt: null,
      health,
      latency: null,
      syncs: [],
      history: null,
    };
    assert.match(
      statusText(status),
      /^slicewire 1\.2\.3 on node-a: nftables mode, IPv4 and IPv6, no agent was asked\nHealth: healthy\n {2}no agent was asked\n/,
    );
    assert.doesNotMatch(statusText(status), /Changes reached|History|Last syncs/);
  });

  it('tell a history, one change after another', () => {
    const history: History = {
      apiVersion: 'slicewire/v1',
      kind: 'History',
      by: BY,
      service: 'shop/web',
      reachesBackTo: '2026-11-22T12:00:00.000Z',
      changes: [
        {
          ...{ number: 1, at: '2026-11-22T12:01:00.000Z', object: 'EndpointSlice shop/web-1', service: 'shop/web' },
          ...{
            resourceVersion: '77',
            what: ['10.244.1.7:8080 is not ready any more', '1 endpoint added: 10.244.1.8:8080'],
          },
          ...{ sync: 12, inKernelAt: '2026-11-22T12:01:00.004Z', milliseconds: 4 },
        },
        {
          ...{ number: 2, at: '2026-11-22T12:03:04.000Z', object: 'Service shop/web', service: 'shop/web' },
          ...{ resourceVersion: '', what: ['deleted'], sync: null, inKernelAt: null, milliseconds: null },
        },
      ],
      syncs: [SYNC],
      omitted: 1200,
      stood: [{ object: 'Service shop/web', lines: ['10.96.0.10, 80/TCP'] }],
    };
    assert.deepEqual(historySchema.parse(history), history);
    assert.equal(
      historyText(history),
      `History of Service shop/web on node-a, back to 12:00:00.000

What stood in the kernel at 12:03:04.567:
  Service shop/web
    10.96.0.10, 80/TCP

1,200 older changes not listed
12:01:00.000  EndpointSlice shop/web-1 (resourceVersion 77)
    10.244.1.7:8080 is not ready any more
    1 endpoint added: 10.244.1.8:8080
    in the kernel after 4.0 ms, by sync 12
12:03:04.000  Service shop/web
    deleted
    not in the kernel yet

Syncs:
  sync  began         why      outcome   changes  writes  took    read  render  write   Services
    12  12:03:00.000  changes  complete        3       4  4.3 ms  0 ms  0.5 ms  3.0 ms  shop/web shop/api`,
    );
    assert.match(
      historyText({ ...history, service: '', changes: [], omitted: 0, stood: [], syncs: [] }),
      /^History of all Services on node-a, back to 12:00:00\.000\n\nno changes$/,
    );
  });

  it('have numbers and times as people write them', () => {
    assert.deepEqual([0, 0.04, 9.96, 10, 999.4, 1000, 61_234].map(millisecondsText), [
      '0 ms',
      '0.0 ms',
      '10.0 ms',
      '10 ms',
      '999 ms',
      '1.0 s',
      '61.2 s',
    ]);
    assert.deepEqual([1, 1023, 1024, 2 ** 20].map(bytesText), ['1 byte', '1,023 bytes', '1.0 KiB', '1.0 MiB']);
    assert.equal(countText(2, 'entry', 'entries'), '2 entries');
    const at = (text: string) => `2026-11-22T${text}Z`;
    assert.deepEqual(
      [at('12:00:59.400'), at('12:01:00.000'), at('13:00:00.000'), '2026-11-25T14:05:00.000Z'].map((to) =>
        timeBetween(at('12:00:00.000'), to),
      ),
      ['59 s', '1 min', '1 h', '3 d 2 h'],
    );
    // A clock that was set back.
    assert.equal(timeBetween(at('12:00:01.000'), at('12:00:00.000')), '0 s');
    assert.equal(clockTime('2026-11-21T23:59:59.001Z', at('00:00:00.000')), '2026-11-21 23:59:59.001');
    assert.deepEqual(columns([['a', '1'], ['bb', '10'], ['c']]), ['a    1', 'bb  10', 'c']);
  });
});
