import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type Address, fromBinary } from '../../../../src/base/address.ts';
import { DispatchTree, LEAF_RULES } from '../../../../src/proxy/modes/netfilter/dispatch-tree.ts';
import { addressSpace, PORTS, portKey, socketKey } from '../../../../src/proxy/modes/netfilter/key-space.ts';
import { type Chain, rule } from '../../../../src/proxy/modes/netfilter/rules.ts';

const NAMES = { root: 'ROOT', prefix: 'KUBE-DSS' };

function newTree(): DispatchTree {
  return new DispatchTree(addressSpace('IPv4', '-d'), NAMES);
}

/** Apply the result of a render to the chains before. */
function applyTo(chains: Map<string, Chain>, tree: DispatchTree): Map<string, Chain> {
  for (const [name, rules] of tree.render()) {
    if (rules === undefined) chains.delete(name);
    else chains.set(name, rules);
  }
  return chains;
}

function texts(chains: ReadonlyMap<string, Chain>): Record<string, string[]> {
  return Object.fromEntries(
    [...chains].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, rules]) => [name, rules.map((line) => line.text)]),
  );
}

/** An address inside or outside 10.96.0.0/12. */
const anAddress = fc.oneof(fc.integer({ min: 0, max: 2 ** 20 - 1 }), fc.integer({ min: 0, max: 300 })).map((n) => {
  return fromBinary((0x0a600000 + n).toString(2).padStart(32, '0'));
});

const entry = (address: Address, port: number) => ({
  key: socketKey(address, 'TCP', port),
  rule: rule([`${address}:${port}`]),
});

/** The rules against which a packet to this address and port is compared, by the text of the matches. */
function walk(chains: ReadonlyMap<string, Chain>, key: string): { met: number; found: string[] } {
  let met = 0;
  const found: string[] = [];
  const visit = (name: string) => {
    for (const line of chains.get(name) ?? assert.fail(`there is no chain ${name}`)) {
      met += 1;
      const target = / -[jg] (\S+)$/.exec(line.text)?.[1];
      if (target === undefined) found.push(line.text);
      else if (covers(line.text, key)) visit(target);
    }
  };
  visit('ROOT');
  return { met, found };
}

/** Whether a branch's match holds for a key: by rendering the match of each of the key's prefixes. */
function covers(text: string, key: string): boolean {
  const space = addressSpace('IPv4', '-d');
  for (let length = 1; length <= key.length; length++) {
    if (text.startsWith(`${space.match(key.slice(0, length))} -`)) return true;
  }
  return false;
}

describe('DispatchTree', () => {
  it('is one chain while it is small', () => {
    const tree = newTree();
    for (let i = 0; i < LEAF_RULES; i++) {
      const { key, rule: value } = entry(`10.96.0.${i}` as Address, 80);
      tree.set(key, 'x', value);
    }
    const chains = applyTo(new Map(), tree);
    assert.deepEqual([...chains.keys()], ['ROOT']);
    assert.equal(chains.get('ROOT')?.length, LEAF_RULES);
  });

  it('splits, and a change touches only the chains on its path', () => {
    const tree = newTree();
    for (let i = 0; i < 5000; i++) {
      const address = fromBinary((0x0a600000 + i * 200).toString(2).padStart(32, '0'));
      const { key, rule: value } = entry(address, 80);
      tree.set(key, 'x', value);
    }
    const chains = applyTo(new Map(), tree);
    assert.ok(chains.size > 100);
    for (const [name, rules] of chains) assert.ok(rules.length <= LEAF_RULES, `${name} has ${rules.length} rules`);
    for (const name of chains.keys()) assert.ok(name.length <= 28, name);
    const one = entry('10.96.7.9' as Address, 80);
    tree.set(one.key, 'x', one.rule);
    const changed = tree.render();
    assert.ok(changed.size <= 6, `${changed.size} chains`);
    const { met, found } = walk(
      applyTo(chains, new Proxy(tree, { get: (t, p) => (p === 'render' ? () => changed : Reflect.get(t, p)) })),
      one.key,
    );
    assert.ok(met < 90, `a packet meets ${met} rules`);
    assert.ok(found.includes('10.96.7.9:80'));
  });

  it('keeps its chains when an address far from all others comes and goes', () => {
    const tree = newTree();
    for (let i = 0; i < 10_000; i++) {
      const one = entry(fromBinary((0x0a600000 + i * 100).toString(2).padStart(32, '0')), 80);
      tree.set(one.key, 'x', one.rule);
    }
    const before = applyTo(new Map(), tree);
    const after = new Map(before);
    for (const far of ['34.1.2.3', '10.0.0.5', '11.1.1.1', '192.168.1.1', '10.112.0.1']) {
      const one = entry(far as Address, 80);
      tree.set(one.key, 'x', one.rule);
      assert.ok(tree.render().size <= 4, `${far} comes`);
      tree.delete(one.key, 'x');
      const changed = tree.render();
      assert.ok(changed.size <= 4, `${far} goes: ${changed.size} chains`);
      for (const [name, rules] of changed) {
        if (rules === undefined) after.delete(name);
        else after.set(name, rules);
      }
    }
    assert.deepEqual(texts(after), texts(before));
  });

  it('has the same chains after every history with the same entries (invariant 12)', () => {
    const steps = fc.array(
      fc.record({ address: anAddress, port: fc.integer({ min: 80, max: 83 }), add: fc.boolean() }),
      { maxLength: 400 },
    );
    fc.assert(
      fc.property(steps, (list) => {
        const tree = newTree();
        const wanted = new Map<string, ReturnType<typeof entry>>();
        const chains = new Map<string, Chain>();
        for (const [i, { address, port, add }] of list.entries()) {
          const one = entry(address, port);
          if (add) wanted.set(one.key, one);
          else wanted.delete(one.key);
          if (add) tree.set(one.key, 'x', one.rule);
          else tree.delete(one.key, 'x');
          if (i % 7 === 0) applyTo(chains, tree);
        }
        applyTo(chains, tree);
        const fresh = newTree();
        for (const { key, rule: value } of wanted.values()) fresh.set(key, 'x', value);
        assert.deepEqual(texts(chains), texts(applyTo(new Map(), fresh)));
        for (const { key, rule: value } of wanted.values()) assert.ok(walk(chains, key).found.includes(value.text));
      }),
      { numRuns: 150 },
    );
  });

  it('branches by port when one address has many', () => {
    const tree = newTree();
    for (let port = 1; port <= 300; port++) {
      const one = entry('192.0.2.1' as Address, port);
      tree.set(one.key, 'x', one.rule);
    }
    const chains = applyTo(new Map(), tree);
    for (const [name, rules] of chains) assert.ok(rules.length <= LEAF_RULES && name.length <= 28);
    assert.ok(walk(chains, socketKey('192.0.2.1' as Address, 'TCP', 77)).found.includes('192.0.2.1:77'));
    assert.match(JSON.stringify(texts(chains)), /-d 192\.0\.2\.1\/32 -p tcp -m tcp --dport \d+:\d+ -[jg]/);
  });

  it('branches on protocol and port for node ports', () => {
    const tree = new DispatchTree(PORTS, { root: 'ROOT', prefix: 'KUBE-DSN' });
    for (let i = 0; i < 400; i++) {
      for (const protocol of ['TCP', 'UDP'] as const)
        tree.set(portKey(protocol, 30_000 + i), 'x', rule([`${protocol} ${30_000 + i}`]));
    }
    const chains = applyTo(new Map(), tree);
    for (const line of chains.get('ROOT') ?? []) {
      assert.match(line.text, /^-p (tcp|udp) -m \1 --dport \d+:\d+ -j KUBE-DSN-\1-\d+-\d+$/);
    }
    const served = [...chains.values()].flat().filter((line) => /^(TCP|UDP) /.test(line.text));
    assert.equal(served.length, 800);
    for (const name of chains.keys()) assert.ok(name.length <= 28, name);
  });
});
