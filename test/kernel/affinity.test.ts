/** What the kernel remembers of clients: lists of `recent`, and templates of IPVS, from transcripts. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../src/base/address.ts';
import { templatesOf } from '../../src/kernel/ipvs-netlink.ts';
import { jiffiesIn, sinceLastSeen } from '../../src/kernel/recent-lists.ts';

const LIST = 'KUBE-SEP-AAAAAAAAAAAAAAAA';
const V4 = '10.244.1.7' as Address;
const V6 = 'fd00:244:1::7' as Address;

const FILES: Readonly<Record<string, string>> = {
  [`/proc/thread-self/net/xt_recent/${LIST}`]: [
    'src=10.244.1.70 ttl: 64 last_seen: 4301000000 oldest_pkt: 1 4301000000',
    'src=10.244.1.7 ttl: 64 last_seen: 4301320811 oldest_pkt: 2 4301319811, 4301320811',
    'src=fd00:0244:0001:0000:0000:0000:0000:0007 ttl: 64 last_seen: 4301321811 oldest_pkt: 1 4301321811',
    '',
  ].join('\n'),
  // 25,720 seconds after the start, at 250 jiffies a second: 2^32 + (25720 - 300) * 250.
  '/proc/timer_list':
    'Timer List Version: v0.9\nnow at 25720000000000 nsecs\n\ncpu: 0\n  .idle_jiffies   : 4\njiffies: 4301322296\n',
};

function read(path: string): Promise<string> {
  const text = FILES[path];
  return text === undefined
    ? Promise.reject(Object.assign(new Error(`no file ${path}`), { code: 'ENOENT' }))
    : Promise.resolve(text);
}

describe('lists of the match recent', () => {
  it('say how long ago a client was seen', async () => {
    assert.deepEqual(await sinceLastSeen([LIST, 'KUBE-SEP-MISSING'], V4, read), new Map([[LIST, 1485 / 250]]));
    assert.deepEqual(await sinceLastSeen([LIST], V6, read), new Map([[LIST, 485 / 250]]));
    assert.deepEqual(await sinceLastSeen([LIST], '10.244.1.8' as Address, read), new Map());
  });

  it('find the number of jiffies in a second', () => {
    for (const frequency of [100, 250, 300, 1000]) {
      for (const seconds of [20, 250, 400, 1_000_000]) {
        const jiffies = 2 ** 32 + Math.round((seconds - 300) * frequency);
        const text = `now at ${seconds * 1e9} nsecs\njiffies: ${jiffies}\n`;
        assert.deepEqual(jiffiesIn(text), { jiffies, frequency }, `${frequency} ${seconds}`);
      }
    }
    assert.throws(() => jiffiesIn('nothing'), /\/proc\/timer_list does not tell the time in jiffies/);
  });

  it('refuse a name that is no list of ours', async () => {
    for (const name of [['..', 'passwd'].join('/'), 'DEFAULT', 'KUBE-SEP-a', '']) {
      await assert.rejects(sinceLastSeen([name], V4, read), RangeError);
    }
  });

  it('report a file that cannot be read', async () => {
    const denied = () => Promise.reject(Object.assign(new Error('EACCES: permission denied'), { code: 'EACCES' }));
    await assert.rejects(sinceLastSeen([LIST], V4, denied), /EACCES/);
  });
});

describe('templates of IPVS', () => {
  async function* lines(...all: readonly string[]) {
    yield* all;
  }
  const HEAD = 'Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData';

  it('are the connections of client port 0', async () => {
    const found = await templatesOf(
      V4,
      lines(
        HEAD,
        'TCP 0AF40107 0000 0A600014 0050 0AF4010B 1F90 NONE          10795',
        'TCP 0AF40107 A1B2 0A600014 0050 0AF4010B 1F90 ESTABLISHED     899',
        'TCP 0AF40108 0000 0A600014 0050 0AF4010C 1F90 NONE          10700',
        'IP  0AF40107 0000 00000001 0000 0AF4010B 0000 NONE             50',
      ),
    );
    assert.deepEqual(found, [
      {
        server: { protocol: 'TCP', address: '10.96.0.20', port: 80 },
        destination: { address: '10.244.1.11', port: 8080 },
        seconds: 10795,
      },
    ]);
  });

  it('have IPv6 addresses with all their digits', async () => {
    const [client, server, at] = ['0007', '0014', '000b'].map((end) => `fd00:0244:0001:0000:0000:0000:0000:${end}`);
    const [found] = await templatesOf(V6, lines(HEAD, `UDP ${client} 0000 ${server} 0035 ${at} 0035 UDP   120`));
    assert.deepEqual(found?.server, { protocol: 'UDP', address: 'fd00:244:1::14', port: 53 });
    assert.deepEqual([found?.destination, found?.seconds], [{ address: 'fd00:244:1::b', port: 53 }, 120]);
  });
});
