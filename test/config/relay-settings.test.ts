/** Which words of --nodeport-addresses ask for node ports on loopback from the relay (docs/semantics.md 6.17). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { loadConfig } from '../../src/agent/load-config.ts';
import { configFromFlags } from '../../src/config/from-flags.ts';
import { relayAddresses } from '../../src/config/relay-settings.ts';

const BOTH = ['127.0.0.1', '::1'];
const CASES: readonly (readonly [string | undefined, readonly string[]])[] = [
  [undefined, []],
  ['localhost', BOTH],
  ['primary,localhost', BOTH],
  ['0.0.0.0/0,127.0.0.1/32', ['127.0.0.1']],
  ['127.0.0.0/8', ['127.0.0.1']],
  ['::1/128', ['::1']],
  ['all', []],
  ['0.0.0.0/0,::/0', []],
  ['primary', []],
  ['0.0.0.0/1', []],
  ['126.0.0.0/7', []],
  ['127.0.0.2/32', []],
  ['10.0.0.0/8', []],
];

describe('node ports on loopback', () => {
  for (const [nodeportAddresses, right] of CASES) {
    for (const mode of ['nftables', 'ipvs']) {
      it(`--nodeport-addresses=${nodeportAddresses ?? ''} in ${mode} mode: ${right.join(' and ') || 'none'}`, () => {
        const config = configFromFlags({ mode, ...(nodeportAddresses === undefined ? {} : { nodeportAddresses }) });
        assert.deepEqual(relayAddresses(config), right);
      });
    }
  }

  it('are the kernel’s in iptables mode', () => {
    assert.deepEqual(relayAddresses(configFromFlags({ mode: 'iptables', nodeportAddresses: 'localhost' })), []);
  });

  it('need no feature gate, and one that is false turns them off', () => {
    const of = (featureGates: string) =>
      relayAddresses(configFromFlags({ mode: 'nftables', nodeportAddresses: 'localhost', featureGates }));
    assert.deepEqual(of('KubeProxyNFTablesLocalhostNodePorts=true'), BOTH);
    assert.deepEqual(of('KubeProxyNFTablesLocalhostNodePorts=false'), []);
  });

  it('that are asked for in vain have a warning that says why', async () => {
    const notes = async (flags: Record<string, string>) => (await loadConfig(flags)).notes.map(({ text }) => text);
    assert.deepEqual(await notes({ mode: 'nftables', nodeportAddresses: '127.0.0.2/32,127.0.0.0/24' }), [
      '--nodeport-addresses: 127.0.0.2/32 has no effect: in nftables mode node ports on loopback are served at 127.0.0.1 and ::1 alone; write localhost for both',
    ]);
    const off = { nodeportAddresses: 'localhost', featureGates: 'KubeProxyNFTablesLocalhostNodePorts=false' };
    assert.deepEqual(await notes({ mode: 'ipvs', ...off }), [
      '--nodeport-addresses: 127.0.0.0/8, ::1/128: node ports are not served on loopback, because the feature gate KubeProxyNFTablesLocalhostNodePorts is false',
    ]);
    assert.deepEqual(await notes({ mode: 'iptables', ...off }), []);
    assert.deepEqual(await notes({ mode: 'nftables', nodeportAddresses: 'primary,localhost' }), []);
  });
});
