/** Counters of rules as connections to frontends: read chain by chain or in one text, and kept when the chains are written anew. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createMutex } from '../../../../src/base/mutex.ts';
import type { ChainProbe } from '../../../../src/kernel/chain-probe.ts';
import type { CommandResult } from '../../../../src/kernel/commands.ts';
import { IptablesTools } from '../../../../src/kernel/iptables-tools.ts';
import type { ChainKey } from '../../../../src/proxy/modes/netfilter/names.ts';
import { packetsOf, RuleConnections } from '../../../../src/proxy/modes/netfilter/rule-connections.ts';
import { type Chain, rule } from '../../../../src/proxy/modes/netfilter/rules.ts';
import { NEVER } from '../../../helpers/proxy/rig.ts';

const WEB = rule(
  ['-d 10.96.0.10/32 -p tcp -m comment --comment "a/web cluster IP" -m tcp --dport 80 -j KUBE-SVC-X'],
  'a/web',
);
const DNS = rule(['-d 10.96.0.53/32 -p udp -m comment --comment "a/dns cluster IP" -m udp --dport 53 -j KUBE-SVC-Y']);
const NODE_PORT = rule(['-p tcp -m comment --comment a/web -m tcp --dport 30080 -j KUBE-EXT-X'], 'a/web');
const MARK = rule(
  ['-d 10.96.0.10/32 -p tcp -m comment --comment "a/web cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ'],
  'a/web',
);
const LAST = rule(['-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS']);

type Chains = Map<ChainKey, Chain>;
const chains = (): Chains =>
  new Map<ChainKey, Chain>([
    ['nat KUBE-SERVICES', [WEB, DNS, LAST]],
    ['nat KUBE-NODEPORTS', [NODE_PORT]],
    ['nat KUBE-SVC-X', [MARK]],
    ['filter KUBE-SERVICES', [WEB]],
  ]);

const COUNTERS: Readonly<Record<string, readonly number[]>> = { 'KUBE-SERVICES': [5, 6, 99], 'KUBE-NODEPORTS': [7] };
const SAVED = `# Generated
*nat
:KUBE-SERVICES - [0:0]
[5:300] -A KUBE-SERVICES ${WEB.text}
[6:360] -A KUBE-SERVICES ${DNS.text}
[99:1] -A KUBE-SERVICES ${LAST.text}
[7:420] -A KUBE-NODEPORTS ${NODE_PORT.text}
COMMIT
`;

function rig(counters: Readonly<Record<string, readonly number[]>> | undefined, answer: Partial<CommandResult> = {}) {
  const ran: string[] = [];
  const run = ({ file, args }: { file: string; args: readonly string[] }): Promise<CommandResult> => {
    ran.push([file, ...args].join(' '));
    return Promise.resolve({ exitCode: 0, stdout: SAVED, stderr: '', ...answer });
  };
  const probe: ChainProbe = {
    hasChain: () => Promise.resolve(true),
    kernelCounters: ({ chain }) => Promise.resolve(counters === undefined ? undefined : (counters[chain] ?? [])),
  };
  return { connections: new RuleConnections({ tools: new IptablesTools({ run }, 'IPv4', 'auto'), probe }), ran };
}

const LOOK = { signal: NEVER, between: createMutex() };
const at = (address: string | undefined, port: number, count: number, service = 'a/web', protocol = 'TCP') => ({
  ...{ service, family: 'IPv4', address, protocol, port, count },
});
const ALL = [at('10.96.0.10', 80, 5), at('10.96.0.53', 53, 6, 'a/dns', 'UDP'), at(undefined, 30_080, 7)];

describe('counters of rules', () => {
  it('are read from the kernel, or from iptables-save where it has no answer for one chain', async () => {
    const asked = rig(COUNTERS);
    assert.deepEqual(await asked.connections.counts(chains, LOOK), ALL);
    assert.deepEqual(asked.ran, []);
    const saved = rig(undefined);
    assert.deepEqual(await saved.connections.counts(chains, LOOK), ALL);
    assert.deepEqual(saved.ran, ['iptables-save -c -t nat']);
    assert.deepEqual(await asked.connections.counts(() => undefined, LOOK), [], 'nothing is known of the chains');
  });

  it('of a chain that another program changed are left out', async () => {
    const { connections } = rig({ ...COUNTERS, 'KUBE-SERVICES': [1, 2] });
    assert.deepEqual(await connections.counts(chains, LOOK), [at(undefined, 30_080, 7)]);
  });

  it('are known by frontend before a write, wherever its rule is written', async () => {
    const { connections } = rig(COUNTERS);
    const packets = await connections.before(['nat KUBE-SERVICES', 'nat KUBE-SVC-X'], chains(), NEVER);
    const elsewhere = rule([WEB.text.replace('KUBE-SVC-X', 'KUBE-SVL-X')], 'a/web');
    assert.equal(packetsOf(elsewhere, packets), 5);
    assert.equal(packetsOf(MARK, packets), 0);
    assert.equal(packetsOf(NODE_PORT, packets), 0, 'its chain stays');
    // The address belongs to another Service now.
    assert.equal(packetsOf(rule([WEB.text.replaceAll('a/web', 'b/web')], 'b/web'), packets), 0);
  });

  it('of a rule that a write removed are reported once more', async () => {
    const { connections } = rig(COUNTERS);
    const packets = await connections.before(['nat KUBE-SERVICES'], chains(), NEVER);
    connections.wrote(new Map([['nat KUBE-SERVICES', [DNS, LAST]]]), packets);
    const none = () => new Map();
    assert.deepEqual(await connections.counts(none, LOOK), [{ ...at('10.96.0.10', 80, 5), hasEnded: true }]);
    assert.deepEqual(await connections.counts(none, LOOK), []);
  });

  it('of a rule that a write removed wait for a look that succeeds', async () => {
    const { connections } = rig(COUNTERS);
    const packets = await connections.before(['nat KUBE-SERVICES'], chains(), NEVER);
    connections.wrote(new Map([['nat KUBE-SERVICES', [DNS, LAST]]]), packets);
    const failing = () => {
      throw new Error('no socket');
    };
    await assert.rejects(connections.counts(failing, LOOK), /no socket/);
    const none = () => new Map();
    assert.deepEqual(await connections.counts(none, LOOK), [{ ...at('10.96.0.10', 80, 5), hasEnded: true }]);
  });

  it('are those of the last look where reading them would hold a write up', async () => {
    const { connections, ran } = rig(undefined);
    const very = (): Chains => {
      const many = chains();
      for (let n = 0; n < 2000; n++) many.set(`nat KUBE-SVC-${n}`, [MARK]);
      return many;
    };
    const before = () => connections.before(['nat KUBE-SERVICES'], very(), NEVER);
    assert.equal(packetsOf(WEB, await before()), 0, 'nobody has looked');
    await connections.counts(very, LOOK);
    const packets = await before();
    assert.deepEqual([packetsOf(WEB, packets), packetsOf(NODE_PORT, packets)], [5, 0]);
    assert.equal(ran.length, 1);
    // A rule that comes back counts from 0.
    connections.wrote(new Map([['nat KUBE-SERVICES', [DNS, LAST]]]), packets);
    assert.equal(packetsOf(WEB, await before()), 0);
  });

  it('that cannot be read before a write do not stop it, and the next reading tells', async () => {
    const { connections } = rig(undefined, { exitCode: 1, stderr: 'no memory' });
    assert.equal((await connections.before(['nat KUBE-SERVICES'], chains(), NEVER)).size, 0);
    await assert.rejects(
      connections.counts(() => new Map(), LOOK),
      /before their rules were written anew: .*no memory/,
    );
    assert.deepEqual(await connections.counts(() => new Map(), LOOK), []);
  });
});
