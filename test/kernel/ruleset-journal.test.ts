/** What the kernel says about the transactions of nftables, from its bytes. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ENOBUFS } from '../../native/errno.ts';
import { SystemError } from '../../native/libc.ts';
import { RulesetJournal } from '../../src/kernel/ruleset-journal.ts';
import { committerText, isUntouched, tableKey, touchedIn } from '../../src/kernel/ruleset-notices.ts';
import { until } from '../helpers/base/until.ts';
import { elementNotice, FakeListener, generationNotice, ruleNotice, tableNotice } from '../helpers/kernel/notices.ts';

const OURS = tableKey('IPv4', 'slicewire');

function made(ownPort?: number) {
  const listener = new FakeListener();
  const journal = new RulesetJournal({
    open: () => listener,
    ownPort: () => ownPort,
    rest: 0,
    starterOf: (pid) => (pid === 4711 ? 'bash' : undefined),
  });
  journal.listen();
  let calls = 0;
  journal.onCommit(() => {
    calls += 1;
  });
  return { listener, journal, calls: () => calls };
}

describe('the journal of the ruleset', () => {
  it('says who committed, and what was touched in which table', async () => {
    const { listener, journal, calls } = made();
    listener.tell(
      ruleNotice('slicewire', 'services', 4711),
      Buffer.concat([
        elementNotice('slicewire', 'services', 'a', 4711),
        elementNotice('slicewire', 'services', 'b', 4711),
      ]),
      ruleNotice('other', 'x', 4711),
      generationNotice(8, 4711, 'nft'),
    );
    // It hears for some milliseconds at once, and then goes on.
    await until('the call', () => calls() === 1);
    const [commit, ...more] = journal.between(7, 8) ?? [];
    assert.ok(commit !== undefined && more.length === 0);
    assert.equal(committerText(commit), 'nft, pid 4711, started by bash');
    const touched = touchedIn([commit], OURS);
    assert.deepEqual([...(touched?.chains ?? [])], ['services']);
    assert.deepEqual([...(touched?.elements.get('services') ?? [])], ['a', 'b']);
    assert.equal(touched?.isWhole, false);
  });

  it('tells of a transaction that somebody read who asked about another one: the socket wakes nobody for it again', () => {
    const { listener, journal, calls } = made(42);
    listener.add(generationNotice(8, 4711, 'nft'), generationNotice(9, 1, 'slicewire', 42));
    assert.equal(journal.between(8, 9)?.length, 1);
    assert.equal(calls(), 1);
    journal.listen();
    assert.equal(calls(), 1, 'once');
  });

  it('wakes nobody again and again while no socket can be opened', () => {
    const open = () => {
      throw new SystemError('socket', ENOBUFS);
    };
    const journal = new RulesetJournal({ open });
    let calls = 0;
    journal.onCommit(() => {
      calls += 1;
    });
    for (let n = 0; n < 3; n++) assert.equal(journal.between(7, 8), undefined);
    assert.equal(calls, 0);
  });

  it('knows nothing of a series with a gap', () => {
    const { listener, journal } = made();
    listener.add(generationNotice(8, 1, 'nft'), generationNotice(10, 1, 'nft'));
    assert.equal(journal.between(7, 8)?.length, 1);
    assert.equal(journal.between(7, 10), undefined);
    assert.equal(journal.between(8, 9), undefined, 'it may still come');
    listener.add(generationNotice(11, 1, 'nft'));
    assert.equal(journal.between(9, 11)?.length, 2);
    assert.deepEqual(journal.between(11, 11), []);
  });

  it('names a table as a whole that was deleted, or of which very many chains were touched', () => {
    const { listener, journal } = made();
    listener.add(tableNotice('slicewire', 1), generationNotice(2, 1, 'nft'));
    for (let i = 0; i < 5000; i++) listener.add(ruleNotice('slicewire', `chain-${i}`, 1));
    listener.add(generationNotice(3, 1, 'nft'), ruleNotice('other', 'x', 1), generationNotice(4, 1, 'nft'));
    const whole = (from: number, to: number) => touchedIn(journal.between(from, to) ?? assert.fail(), OURS)?.isWhole;
    assert.equal(whole(1, 2), true);
    assert.equal(whole(2, 3), true);
    assert.equal(whole(3, 4), false);
  });

  it('names sets as a whole where very many elements were touched, and chains beside them', () => {
    const { listener, journal } = made();
    listener.add(ruleNotice('slicewire', 'refuse', 1), elementNotice('slicewire', 'backends', 'x', 1));
    for (let i = 0; i < 5000; i++) listener.add(elementNotice('slicewire', 'services', `${i}`, 1));
    listener.add(generationNotice(2, 1, 'nft'), elementNotice('slicewire', 'services', 'a', 1));
    listener.add(elementNotice('slicewire', 'local', 'a', 1), generationNotice(3, 1, 'nft'));
    assert.deepEqual(touchedIn(journal.between(1, 3) ?? assert.fail(), OURS), {
      ...{ isWhole: false, chains: new Set(['refuse']), sets: new Set(['backends', 'services']) },
      elements: new Map([['local', new Set(['a'])]]),
    });
  });

  it('lets others run while very many messages come, and has heard all of them where it is asked', async () => {
    const { listener, journal, calls } = made();
    const flood = Array.from({ length: 30_000 }, (_, i) => ruleNotice('slicewire', `chain-${i}`, 1));
    listener.tell(...flood, generationNotice(8, 1, 'nft'));
    assert.equal(calls(), 0, 'it is not through');
    assert.equal(journal.between(7, 8)?.length, 1);
    listener.tell(...flood, generationNotice(9, 1, 'nft'));
    await until('the other transaction', () => calls() === 1);
  });

  it('names the chains of a sync with many rules, and forgets old transactions with many names', () => {
    const { listener, journal } = made();
    for (let i = 0; i < 3000; i++) listener.add(ruleNotice('nat', `KUBE-SVC-${i % 200}`, 1));
    listener.add(generationNotice(2, 1, 'iptables-nft-re'));
    const touched = touchedIn(journal.between(1, 2) ?? assert.fail(), tableKey('IPv4', 'nat'));
    assert.deepEqual([touched?.isWhole, touched?.chains.size], [false, 200]);
    for (let n = 3; n < 40; n++) {
      for (let part = 0; part < 30; part++) {
        const rules = Array.from({ length: 100 }, (_, i) => ruleNotice('nat', `chain-${n}-${part}-${i}`, 1));
        listener.add(Buffer.concat(rules));
      }
      listener.add(generationNotice(n, 1, 'nft'));
    }
    assert.equal(journal.between(1, 39), undefined, 'it is forgotten');
    assert.equal(journal.between(30, 39)?.length, 9);
  });

  it('does not tell of our own transactions, but knows their generations', () => {
    const { listener, journal, calls } = made(77);
    listener.tell(generationNotice(2, 1, 'slicewire', 77));
    assert.equal(calls(), 0);
    assert.deepEqual(
      journal.between(1, 2)?.map(({ port }) => port),
      [77],
    );
    listener.tell(generationNotice(3, 9, 'nft'));
    assert.equal(calls(), 1);
  });

  it('trusts no transaction that may have lost a message: all until the buffer was empty, and the one after', () => {
    const { listener, journal, calls } = made();
    listener.tell(
      'lost',
      ruleNotice('slicewire', 'a', 1),
      generationNotice(2, 1, 'nft'),
      generationNotice(3, 1, 'nft'),
    );
    assert.equal(calls(), 1);
    assert.equal(touchedIn(journal.between(1, 3) ?? [], OURS), undefined);
    // The rest of a transaction whose first messages were dropped.
    listener.tell(ruleNotice('slicewire', 'b', 1), generationNotice(4, 1, 'nft'));
    assert.equal(touchedIn(journal.between(3, 4) ?? assert.fail(), OURS), undefined);
    listener.tell(ruleNotice('slicewire', 'c', 1), generationNotice(5, 1, 'nft'));
    assert.deepEqual([...(touchedIn(journal.between(4, 5) ?? [], OURS)?.chains ?? [])], ['c']);
    listener.tell(generationNotice(6, 1, 'nft'));
    assert.equal(isUntouched(touchedIn(journal.between(5, 6) ?? [], OURS) ?? assert.fail()), true);
  });

  it('tells of a loss although no generation was heard', () => {
    const { listener, calls } = made();
    listener.tell('lost');
    assert.equal(calls(), 1);
    listener.tell('lost');
    assert.equal(calls(), 2);
  });

  it('remembers a bounded number of transactions, and closes its socket', () => {
    const { listener, journal } = made();
    for (let i = 2; i < 5002; i++) listener.add(generationNotice(i, 1, 'nft'));
    assert.equal(journal.between(1, 5001), undefined);
    assert.equal(journal.between(4501, 5001)?.length, 500);
    journal.close();
    assert.equal(listener.isClosed, true);
  });
});
