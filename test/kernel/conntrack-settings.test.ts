/** The settings of conntrack, as kube-proxy makes them (docs/semantics.md 8.4). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { barredText, conntrackMax, conntrackWrites, sortWrites } from '../../src/kernel/conntrack-settings.ts';
import { realSettings, writeSettings } from '../../src/kernel/sysctls.ts';
import { fakeSysctls } from '../helpers/proxy/rig.ts';

const DEFAULTS = {
  maxPerCore: 32_768,
  min: 131_072,
  tcpEstablishedTimeout: 86_400_000,
  tcpCloseWaitTimeout: 3_600_000,
  tcpBeLiberal: false,
  udpTimeout: 0,
  udpStreamTimeout: 0,
};

/** The kernel's defaults. */
function kernel(values: Record<string, string> = {}): ReturnType<typeof fakeSysctls> {
  const sysctls = fakeSysctls();
  const initial = {
    'net/netfilter/nf_conntrack_max': '65536',
    'net/netfilter/nf_conntrack_tcp_timeout_established': '432000',
    'net/netfilter/nf_conntrack_tcp_timeout_close_wait': '60',
    'net/netfilter/nf_conntrack_tcp_be_liberal': '0',
    'net/netfilter/nf_conntrack_udp_timeout': '30',
    'net/netfilter/nf_conntrack_udp_timeout_stream': '120',
    '/sys/module/nf_conntrack/parameters/hashsize': '16384',
  };
  for (const [name, value] of Object.entries({ ...initial, ...values })) sysctls.values.set(name, value);
  return sysctls;
}

describe('conntrack settings', () => {
  it('the table has so many entries for each core, at least the minimum, and at most a million by cores', () => {
    assert.equal(conntrackMax(DEFAULTS, 2), 131_072);
    assert.equal(conntrackMax(DEFAULTS, 8), 262_144);
    assert.equal(conntrackMax(DEFAULTS, 64), 1_048_576);
    assert.equal(conntrackMax({ ...DEFAULTS, min: 2_000_000 }, 64), 1_048_576);
    assert.equal(conntrackMax({ ...DEFAULTS, min: 2_000_000 }, 2), 2_000_000);
    assert.equal(conntrackMax({ ...DEFAULTS, maxPerCore: 0 }, 64), 0);
  });

  it('writes settings that differ, the size before the buckets', async () => {
    const writes = await conntrackWrites(DEFAULTS, { cores: 8, sysctls: kernel() });
    assert.deepEqual(
      writes.map(({ name, from, to }) => `${name}: ${from} to ${to}`),
      [
        'net/netfilter/nf_conntrack_max: 65536 to 262144',
        '/sys/module/nf_conntrack/parameters/hashsize: 16384 to 65536',
        'net/netfilter/nf_conntrack_tcp_timeout_established: 432000 to 86400',
        'net/netfilter/nf_conntrack_tcp_timeout_close_wait: 60 to 3600',
      ],
    );
  });

  it('leaves settings of 0, and surplus buckets, unchanged', async () => {
    const nothing = { ...DEFAULTS, maxPerCore: 0, tcpEstablishedTimeout: 0, tcpCloseWaitTimeout: 0 };
    assert.deepEqual(await conntrackWrites(nothing, { cores: 8, sysctls: kernel() }), []);
    const large = kernel({ '/sys/module/nf_conntrack/parameters/hashsize': '1000000' });
    const names = (await conntrackWrites(DEFAULTS, { cores: 8, sysctls: large })).map((write) => write.name);
    assert.ok(!names.some((name) => name.includes('hashsize')));
  });

  it('writes settings beyond the defaults', async () => {
    const asked = { ...DEFAULTS, maxPerCore: 0, tcpBeLiberal: true, udpTimeout: 40_500, udpStreamTimeout: 300_000 };
    const writes = await conntrackWrites(asked, { cores: 1, sysctls: kernel() });
    assert.deepEqual(
      writes.slice(2).map(({ name, to }) => [name.slice(name.lastIndexOf('/') + 1), to]),
      [
        ['nf_conntrack_tcp_be_liberal', '1'],
        ['nf_conntrack_udp_timeout', '40'],
        ['nf_conntrack_udp_timeout_stream', '300'],
      ],
    );
  });

  it('has nothing to write after the writes', async () => {
    const sysctls = kernel();
    const options = { cores: 4, sysctls };
    assert.deepEqual(await writeSettings(await conntrackWrites(DEFAULTS, options), sysctls), []);
    assert.deepEqual(await conntrackWrites(DEFAULTS, options), []);
  });

  it('reports a setting that the kernel does not have', async () => {
    const none = {
      name: 'net/netfilter/nf_conntrack_none_of_this_name',
      to: '32768',
      leftBy: '--conntrack-max-per-core=0',
    };
    const { possible, barred } = await sortWrites([none], realSettings);
    assert.deepEqual(possible, []);
    assert.deepEqual(barred.map(barredText), [
      'sysctl net.netfilter.nf_conntrack_none_of_this_name cannot be changed on this node: this kernel has no such setting; its value should be 32768; --conntrack-max-per-core=0 stops slicewire from changing it',
    ]);
  });

  it('reports a setting of which it is unknown whether it can be written', async () => {
    const [write] = await conntrackWrites(DEFAULTS, { cores: 8, sysctls: kernel() });
    assert.ok(write !== undefined);
    const unknown = () => Promise.reject(new Error('EMFILE: too many open files'));
    const hash = { ...write, name: '/sys/module/nf_conntrack/parameters/hashsize' };
    const files = { ...realSettings, whyNotWritable: () => Promise.resolve(undefined), isReadOnly: unknown };
    const { possible, barred } = await sortWrites([write, hash], files);
    assert.deepEqual(possible, [write]);
    assert.deepEqual(barred, [{ ...hash, cause: 'EMFILE: too many open files' }]);
  });

  it('names the flag that leaves each setting unchanged', async () => {
    const all = { ...DEFAULTS, tcpBeLiberal: true, udpTimeout: 40_000, udpStreamTimeout: 300_000 };
    const writes = await conntrackWrites(all, { cores: 8, sysctls: kernel() });
    const flags = ['max-per-core=0', 'max-per-core=0', 'tcp-timeout-established=0', 'tcp-timeout-close-wait=0'];
    flags.push('tcp-be-liberal=false', 'udp-timeout=0', 'udp-timeout-stream=0');
    assert.deepEqual(
      writes.map(({ leftBy }) => leftBy),
      flags.map((flag) => `--conntrack-${flag}`),
    );
  });

  it('reports settings that cannot be written, and writes the others', async () => {
    const sysctls = kernel();
    const write = sysctls.write.bind(sysctls);
    const readOnly = {
      ...sysctls,
      write: (name: string, value: string) =>
        name.endsWith('_max') ? Promise.reject(new Error('EACCES: permission denied')) : write(name, value),
    };
    const failed = await writeSettings(await conntrackWrites(DEFAULTS, { cores: 8, sysctls }), readOnly);
    assert.deepEqual(failed, [{ name: 'net/netfilter/nf_conntrack_max', cause: 'EACCES: permission denied' }]);
    assert.equal(sysctls.values.get('net/netfilter/nf_conntrack_tcp_timeout_established'), '86400');
  });
});
