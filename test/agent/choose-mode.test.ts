/** The mode that auto chooses, by what stands on a node and by what its kernel can. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { modeChooser } from '../../src/agent/choose-mode.ts';
import { type Platform, realPlatform } from '../../src/agent/platform.ts';
import { FAMILIES, type Family } from '../../src/base/address.ts';
import { configsFromFlags } from '../../src/config/from-flags.ts';
import { CommandNotStarted } from '../../src/kernel/commands.ts';
import { NftMissing, NftUnusable } from '../../src/kernel/nftables-kernel.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { MODE_REASONS } from '../messages/mode-choices.ts';

interface Node {
  /** `IPv4 slicewire` */
  readonly tables?: readonly string[];
  /** Rules of the chain KUBE-SERVICES of these families. */
  readonly services?: Partial<Record<Family, readonly string[]>>;
  /** kube-ipvs0. */
  readonly hasDevice?: boolean;
  /** The module ip_vs. */
  readonly hasIpvs?: boolean;
  /** The kernel has no nftables; `refuses`: it refuses a write of nftables mode in IPv6. */
  readonly nftables?: 'missing' | 'refuses';
  /** Another process holds the xtables lock. */
  readonly isLocked?: boolean;
  readonly hasNoIptables?: boolean;
  /** Chains of the nft variant that the kernel knows by name; undefined: the kernel does not answer. */
  readonly chains?: readonly string[];
}

function platformOf(node: Node) {
  const {
    tables = [],
    services = {},
    hasDevice = false,
    hasIpvs = hasDevice,
    nftables,
    isLocked,
    hasNoIptables,
    chains,
  } = node;
  const locked = { exitCode: 4, stdout: '', stderr: 'Another app is currently holding the xtables lock.' };
  const iptables = new FakeIptables({
    intercept: ({ file, args }) => {
      if (hasNoIptables === true) throw new CommandNotStarted(file, 'ENOENT');
      return isLocked === true && args.includes('KUBE-SERVICES') ? locked : undefined;
    },
  });
  for (const family of FAMILIES) {
    const rules = services[family];
    if (rules !== undefined) iptables.kernels[family].get('nat')?.set('KUBE-SERVICES', [...rules]);
  }
  let open = 0;
  const openNftables = () => {
    if (nftables === 'missing') throw new NftMissing('the kernel has no nftables');
    open += 1;
    const kernel = {
      hasTable: (family: string, table: string) => tables.includes(`${family} ${table}`),
      check(family: Family) {
        if (nftables === 'refuses' && family === 'IPv6') throw new NftUnusable('IPv6: this kernel refuses a set');
      },
      close() {
        open -= 1;
      },
    };
    return kernel as unknown as ReturnType<Platform['kernel']['openNftables']>;
  };
  const openRules: Platform['kernel']['openRules'] = () => {
    if (chains === undefined) return Promise.reject(new Error('no socket'));
    open += 1;
    return Promise.resolve({
      chain: ({ chain }) => ({ kind: 'known', exists: chains.includes(chain) }),
      close() {
        open -= 1;
      },
    });
  };
  const fact = (is: boolean) => () => Promise.resolve(is);
  const platform: Platform = {
    ...realPlatform,
    commands: iptables,
    machine: {
      ...realPlatform.machine,
      mayChangeNetwork: fact(true),
      families: () => Promise.resolve(FAMILIES),
      legacyTables: () => Promise.resolve([]),
      addresses: () => Promise.resolve([]),
      hasIpvs: fact(hasIpvs),
      hasServiceDevice: fact(hasDevice),
    },
    kernel: { ...realPlatform.kernel, openNftables, openRules },
  };
  return { platform, iptables, open: () => open };
}

const BY_CHAINS = ['-d 10.96.0.10/32 -j KUBE-SVC-WEB'];
const BY_SETS = ['-m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT'];

const CHOICES: readonly (readonly [string, Node, mode: string, why: string])[] = [
  ['nothing stands, and the kernel can do nftables mode', {}, 'nftables', MODE_REASONS.nothing],
  [
    'nothing stands, and the kernel has no nftables',
    { nftables: 'missing' },
    'iptables',
    'no rules of a proxy stand on this node, and nftables mode cannot work: the kernel has no nftables',
  ],
  [
    'nothing stands, and the kernel refuses what nftables mode writes',
    { nftables: 'refuses' },
    'iptables',
    'no rules of a proxy stand on this node, and nftables mode cannot work: IPv6: this kernel refuses a set',
  ],
  [
    'iptables is missing, so that rules of its legacy variant cannot be seen',
    { hasNoIptables: true, chains: [] },
    'nftables',
    'no rules of a proxy were found on this node (iptables does not work for IPv4 and IPv6), and its kernel can do nftables mode',
  ],
  [
    'neither iptables nor the kernel tells what rules stand',
    { hasNoIptables: true },
    'nftables',
    'no rules of a proxy were found on this node (iptables does not work for IPv4 and IPv6), and its kernel can do nftables mode',
  ],
  [
    'iptables is missing, and the kernel has rules of its nft variant',
    { hasNoIptables: true, chains: ['KUBE-SERVICES'] },
    'iptables',
    MODE_REASONS.chains,
  ],
  [
    'iptables is missing, and the kernel has IPVS and rules',
    { hasNoIptables: true, chains: ['KUBE-SERVICES'], hasDevice: true },
    'ipvs',
    MODE_REASONS.device,
  ],
  [
    'only the chain of the filter table stands',
    { hasNoIptables: true, chains: ['KUBE-FORWARD'] },
    'iptables',
    'rules of iptables mode (the chain KUBE-FORWARD) stand on this node',
  ],
  ['rules of iptables mode stand in one family', { services: { IPv6: BY_CHAINS } }, 'iptables', MODE_REASONS.chains],
  [
    'rules of iptables mode stand in a kernel without nftables',
    { services: { IPv4: BY_CHAINS }, nftables: 'missing' },
    'iptables',
    MODE_REASONS.chains,
  ],
  ['the own table stands', { tables: ['IPv6 slicewire'] }, 'nftables', MODE_REASONS.table],
  [
    'the own table stands beside rules of another proxy',
    { tables: ['IPv4 slicewire'], services: { IPv4: BY_CHAINS } },
    'nftables',
    MODE_REASONS.table,
  ],
  ["kube-proxy's table stands", { tables: ['IPv4 kube-proxy'] }, 'nftables', MODE_REASONS.kubeProxyTable],
  [
    "kube-proxy's table stands beside rules of iptables mode",
    { tables: ['IPv4 kube-proxy'], services: { IPv4: BY_CHAINS } },
    'iptables',
    'rules of iptables mode (the chain KUBE-SERVICES) stand on this node, and beside them the nftables table kube-proxy: a node that has both keeps iptables mode',
  ],
  ['IPVS mode works', { hasDevice: true, services: { IPv4: BY_SETS } }, 'ipvs', MODE_REASONS.device],
  [
    'IPVS mode ended within its first write, and its device is gone',
    { hasNoIptables: true, chains: ['KUBE-IPVS-OUT-FILTER'] },
    'nftables',
    'no rules of a proxy were found on this node (iptables does not work for IPv4 and IPv6), and its kernel can do nftables mode',
  ],
  ['IPVS mode lost its rules', { hasDevice: true }, 'ipvs', MODE_REASONS.device],
  [
    'kube-proxy went from IPVS mode to iptables mode, and left the device',
    { hasDevice: true, services: { IPv4: BY_CHAINS } },
    'iptables',
    'rules of iptables mode (the chain KUBE-SERVICES) stand on this node, and beside them the device kube-ipvs0 of IPVS mode: a node that has both keeps iptables mode',
  ],
  ['the device stands in a kernel without IPVS', { hasDevice: true, hasIpvs: false }, 'nftables', MODE_REASONS.nothing],
  [
    'the lock is held',
    { isLocked: true },
    'iptables',
    'another program held the xtables lock, so that rules of a proxy may stand on this node',
  ],
];

describe('auto', () => {
  const configs = configsFromFlags({ mode: 'auto', manifests: '/m' });

  for (const [title, node, mode, why] of CHOICES) {
    it(`chooses ${mode} mode where ${title}`, async () => {
      const { platform, iptables, open } = platformOf(node);
      assert.deepEqual(await modeChooser(NEVER, platform)(configs), { mode, why });
      assert.equal(iptables.restores, 0, 'it writes nothing');
      assert.equal(open(), 0, 'it leaves no socket open');
    });
  }

  it('asks the kernel whether it can do nftables mode only where nothing stands', async () => {
    const { platform } = platformOf({ services: { IPv4: BY_CHAINS }, nftables: 'refuses' });
    assert.equal((await modeChooser(NEVER, platform)(configs)).mode, 'iptables');
  });

  it('is refused without the right to read the rules', async () => {
    const { platform } = platformOf({});
    const machine = { ...platform.machine, mayChangeNetwork: () => Promise.resolve(false) };
    await assert.rejects(modeChooser(NEVER, { ...platform, machine })(configs), { code: 'CANNOT_RUN' });
  });
});
