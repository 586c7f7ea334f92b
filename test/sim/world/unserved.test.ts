/** Tools of iptables that do not work at the start of the agent, for a moment or for good. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Scene, simScene } from './scene.ts';

const VERSION = 'ip6tables --version';
const CHAIN = 'ip6tables --wait 1 -t nat -S POSTROUTING';
/** Variants of a tool's failure (kernel/iptables/tools.ts). */
const FAILURES = { 'exit status 1': 2, 'exit status 3': 3, ENOMEM: 5 } as const;
const PERIOD = 30_000;

/** The first call of this name fails. */
function failOnce({ calls }: Scene, name: string, variant: number): void {
  let isOver = false;
  calls.faultAt = (_number, what) => {
    if (isOver || what !== name) return undefined;
    isOver = true;
    return { kind: 'fails', when: 'before', variant };
  };
}

async function notesOf(scene: Scene): Promise<readonly string[]> {
  const answer = await scene.ask('/healthz');
  assert.equal(answer?.status, 200, scene.lines.join('\n'));
  return (JSON.parse(answer.body) as { readonly notes?: readonly string[] }).notes ?? [];
}

function servesIPv6({ kernel }: Scene): boolean {
  return kernel.views('IPv6').iptables?.rules !== undefined;
}

function startsOf({ lines }: Scene): number {
  return lines.filter((line) => line.includes('the agent ended')).length + 1;
}

describe('a family whose tools fail at the start', () => {
  for (const [what, name, variant] of [
    ['exit status 1', VERSION, FAILURES['exit status 1']],
    ['exit status 3', CHAIN, FAILURES['exit status 3']],
    ['ENOMEM', VERSION, FAILURES.ENOMEM],
  ] as const) {
    it(`is served once they work, and health has a note until then: ${name}: ${what}`, async () => {
      const scene = simScene({ mode: 'iptables', variant: 'nft' });
      try {
        failOnce(scene, name, variant);
        await scene.run(PERIOD / 2);
        assert.equal(servesIPv6(scene), false);
        const [note = '', ...others] = await notesOf(scene);
        assert.match(note, /^one family is not served: .*ip6tables.*; the agent tries it again every 30 s$/);
        assert.doesNotMatch(note, /install/);
        assert.deepEqual(others, []);
        await scene.run(PERIOD);
        assert.equal(servesIPv6(scene), true, scene.lines.join('\n'));
        assert.deepEqual(await notesOf(scene), []);
        assert.equal(startsOf(scene), 1);
      } finally {
        scene.end();
      }
    });
  }

  it('costs one try a period while they are missing, and no other generation of the agent', async () => {
    const scene = simScene({ mode: 'iptables', variant: 'nft' });
    try {
      scene.kernel.iptables.missing.add('ip6tables');
      await scene.run(PERIOD / 2);
      const tries: string[] = [];
      scene.calls.onCall = ({ what }) => {
        if (what.startsWith('ip6tables')) tries.push(what);
      };
      await scene.run(10 * PERIOD);
      assert.ok(tries.length >= 9 && tries.length <= 10, `${tries.length} tries: ${tries[0]}`);
      assert.deepEqual([...new Set(tries)], [CHAIN]);
      assert.doesNotMatch(scene.lines.join('\n'), /adapting/);
      const [note = ''] = await notesOf(scene);
      assert.match(note, /^one family is not served: cannot start ip6tables: no such program; install the package/);
      scene.kernel.iptables.missing.clear();
      await scene.run(PERIOD + 5000);
      assert.equal(servesIPv6(scene), true);
      assert.deepEqual(await notesOf(scene), []);
    } finally {
      scene.end();
    }
  });
});

describe('the rules of a former proxy, whose tools fail at the start of nftables mode', () => {
  it('are removed once they work', async () => {
    const scene = simScene({ mode: 'nftables', variant: 'nft' });
    try {
      const store = scene.kernel.iptables.stores.nft;
      store.commit('IPv6', 'nat', new Map([...store.used('IPv6', 'nat'), ['KUBE-SERVICES', []]]));
      const isLeft = () => store.table('IPv6', 'nat')?.has('KUBE-SERVICES') === true;
      failOnce(scene, VERSION, FAILURES['exit status 1']);
      await scene.run(PERIOD / 2);
      assert.equal(isLeft(), true);
      assert.match(
        (await notesOf(scene)).join(),
        /^iptables rules of a former proxy can be neither read nor removed: /,
      );
      await scene.run(PERIOD);
      assert.equal(isLeft(), false, scene.lines.join('\n'));
      assert.deepEqual(await notesOf(scene), []);
    } finally {
      scene.end();
    }
  });

  it('are none where the kernel has none: the tools are not tried, and may be missing', async () => {
    const scene = simScene({ mode: 'nftables', variant: 'nft' });
    try {
      for (const name of ['iptables', 'ip6tables']) scene.kernel.iptables.missing.add(name);
      await scene.run(PERIOD / 2);
      assert.deepEqual(await notesOf(scene), []);
      assert.doesNotMatch(scene.lines.join('\n'), /iptables/);
    } finally {
      scene.end();
    }
  });

  it('are removed although they came after a start that tried no tool, in either variant', async () => {
    for (const variant of ['nft', 'legacy'] as const) {
      const scene = simScene({ mode: 'nftables', variant });
      const started: string[] = [];
      scene.calls.onCall = ({ what }) => {
        if (/^ip6?tables/.test(what)) started.push(what);
      };
      try {
        await scene.run(PERIOD / 2);
        assert.deepEqual(started, []);
        const store = scene.kernel.iptables.stores[variant];
        store.commit('IPv4', 'nat', new Map([...store.used('IPv4', 'nat'), ['KUBE-SERVICES', []]]));
        await scene.run(15 * PERIOD);
        assert.equal(store.table('IPv4', 'nat')?.has('KUBE-SERVICES'), false, variant);
      } finally {
        scene.end();
      }
    }
  });
});
