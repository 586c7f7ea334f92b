import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseDuration } from '../../src/base/duration.ts';
import { fileText } from '../../src/config/config-file.ts';
import { ConfigError, type Flags } from '../../src/config/flags.ts';
import { configFromFlags } from '../../src/config/from-flags.ts';
import { flagsFromText } from '../helpers/cluster/documents/documents.ts';

/** As kubeadm writes it (its cmd/kubeadm/app/phases/addons/proxy). */
const KUBEADM = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection: {acceptContentTypes: "", burst: 0, contentType: "", kubeconfig: /var/lib/kube-proxy/kubeconfig.conf, qps: 0}
clusterCIDR: 10.244.0.0/16
configSyncPeriod: 0s
conntrack: {maxPerCore: null, min: null, tcpBeLiberal: false}
detectLocal: {bridgeInterface: "", interfaceNamePrefix: ""}
detectLocalMode: ""
enableProfiling: false
hostnameOverride: ""
iptables: {localhostNodePorts: null, masqueradeAll: false, masqueradeBit: null, minSyncPeriod: 0s, syncPeriod: 0s}
ipvs: {excludeCIDRs: null, minSyncPeriod: 0s, scheduler: "", strictARP: false}
metricsBindAddress: ""
mode: ""
nodePortAddresses: null
`;

describe('durations are Go’s', () => {
  const cases: readonly [string, number | undefined][] = [
    ['30s', 30_000],
    ['1m30s', 90_000],
    // The micro sign and the Greek letter: Go takes both.
    ['2000\u00b5s', 2],
    ['2000\u03bcs', 2],
    ['1h', 3_600_000],
    ['1.5s', 1500],
    ['100ms', 100],
    ['0', 0],
    ['-5s', -5000],
    ['5', undefined],
    ['1 minute', undefined],
    ['', undefined],
    ['s', undefined],
  ];
  for (const [text, milliseconds] of cases)
    it(text === '' ? 'empty' : text, () => assert.equal(parseDuration(text), milliseconds));
});

describe('configuration', () => {
  it('has kube-proxy’s defaults where nothing is given', () => {
    const config = configFromFlags({ manifests: '/m', hostnameOverride: ' Node-A ' });
    assert.deepEqual(
      [
        config.mode,
        config.nodeName,
        config.syncPeriod,
        config.minSyncPeriod,
        config.masqueradeBit,
        config.localhostNodePorts,
      ],
      ['iptables', 'node-a', 30_000, 1000, 14, true],
    );
    assert.ok(Object.isFrozen(config));
  });

  it('reads a file as kubeadm writes it', () => {
    const { flags, idle } = flagsFromText(KUBEADM, {});
    const config = configFromFlags(flags);
    assert.deepEqual(config.source, {
      kind: 'kubernetes',
      kubeconfig: '/var/lib/kube-proxy/kubeconfig.conf',
      master: undefined,
      contentType: 'application/vnd.kubernetes.protobuf',
    });
    assert.deepEqual(config.detectLocal, { kind: 'cluster-cidr', cidrs: ['10.244.0.0/16'] });
    assert.deepEqual([config.syncPeriod, config.minSyncPeriod], [30_000, 1000]);
    assert.deepEqual(idle, []);
    assert.deepEqual(
      [config.serve.hardFail, config.serve.healthz?.text, config.serve.metrics.text],
      [false, '0.0.0.0:10256', '127.0.0.1:10249'],
    );
    const { maxPerCore, min, tcpEstablishedTimeout, tcpCloseWaitTimeout, tcpBeLiberal } = config.conntrack;
    assert.deepEqual(
      [maxPerCore, min, tcpEstablishedTimeout, tcpCloseWaitTimeout, tcpBeLiberal],
      [32_768, 131_072, 86_400_000, 3_600_000, false],
    );
  });

  it('lets the file win over flags, but for the host name, the API server and the log', () => {
    const line: Flags = { clusterCidr: '10.9.0.0/16', hostnameOverride: 'b', master: 'https://x', v: '4' };
    const { flags } = flagsFromText(KUBEADM, line);
    assert.deepEqual(
      [flags.clusterCidr, flags.hostnameOverride, flags.master, flags.v],
      ['10.244.0.0/16', 'b', 'https://x', '4'],
    );
  });

  it('refuses another object and broken YAML in one line', () => {
    for (const text of ['kind: Pod\napiVersion: v1\n', 'a: [', '']) {
      assert.throws(
        () => flagsFromText(text, {}),
        (error) => error instanceof ConfigError && !error.message.includes('\n'),
      );
    }
  });

  it('is the same after it was written and read', () => {
    const flags: Flags[] = [
      { kubeconfig: '/k', hostnameOverride: 'n' },
      {
        mode: 'iptables',
        clusterCidr: '10.0.0.0/8',
        masqueradeAll: 'true',
        iptablesMasqueradeBit: '15',
        iptablesSyncPeriod: '1h30m',
        nodeportAddresses: '10.0.0.0/8,primary',
        conntrackMin: '1000',
        conntrackUdpTimeout: '40s',
        kubeconfig: '/k',
        hostnameOverride: 'n',
        healthzBindAddress: '[::1]:99',
        metricsBindAddress: '127.0.0.2',
        profiling: 'true',
        oomScoreAdj: '-5',
        v: '3',
      },
      {
        mode: 'ipvs',
        ipvsStrictArp: 'true',
        ipvsTcpTimeout: '90s',
        detectLocalMode: 'NodeCIDR',
        hostnameOverride: 'n',
      },
      { detectLocalMode: 'BridgeInterface', podBridgeInterface: 'cbr0', hostnameOverride: 'n' },
      { detectLocalMode: 'InterfaceNamePrefix', podInterfaceNamePrefix: 'cali', hostnameOverride: 'n' },
    ];
    for (const some of flags) {
      const config = configFromFlags(some);
      // The written file names the mode, as kube-proxy's does.
      const read = configFromFlags(flagsFromText(fileText(config), {}).flags);
      assert.deepEqual(read, { ...config, modeChoice: { by: 'configuration' } });
    }
  });

  it('in nftables mode goes by the section of that mode, and serves node ports on the primary address', () => {
    const text = [
      'apiVersion: kubeproxy.config.k8s.io/v1alpha1',
      'kind: KubeProxyConfiguration',
      'mode: nftables',
      'iptables: {masqueradeAll: true, masqueradeBit: 3, syncPeriod: 9s}',
      'nftables: {masqueradeBit: 5, minSyncPeriod: 2s}',
    ].join('\n');
    const { flags, origins } = flagsFromText(text, {});
    const config = configFromFlags(flags, { origins, file: 'config.conf' });
    assert.deepEqual(
      [config.masqueradeAll, config.masqueradeBit, config.syncPeriod, config.minSyncPeriod],
      [false, 5, 30_000, 2_000],
    );
    assert.deepEqual(config.nodePortAddresses, { primary: 'known', cidrs: [] });
    const flagged = configFromFlags({ mode: 'nftables', masqueradeAll: 'true', nodeportAddresses: 'all' });
    assert.equal(flagged.masqueradeAll, true);
    const periods = configFromFlags({ mode: 'nftables', iptablesSyncPeriod: '9s', nftablesMinSyncPeriod: '2s' });
    assert.deepEqual([periods.syncPeriod, periods.minSyncPeriod], [9000, 2000]);
    assert.equal(flagged.nodePortAddresses.primary, false);
    assert.deepEqual(configFromFlags(flagsFromText(fileText(flagged), {}).flags), flagged);
    assert.match(fileText(configFromFlags({ manifests: '/m' })), /^nftables: \{\}$/m, 'every section, in every mode');
  });

  it('keeps fields of a file that have no effect, and names no node unless the configuration does', () => {
    const file = `${KUBEADM}featureGates: {WinDSR: true}\nnftables: {masqueradeBit: 3}\n`;
    const { flags, given } = flagsFromText(file, {});
    const written = fileText(configFromFlags(flags, { given }));
    for (const line of ['hostnameOverride: ""', 'WinDSR: true', 'masqueradeBit: 3', 'qps: 0', 'masqueradeBit: 14']) {
      assert.ok(written.replaceAll("'", '"').includes(line), `${line} in ${written}`);
    }
  });

  it('takes keywords and CIDRs for the addresses of node ports', () => {
    const of = (text: string) => configFromFlags({ manifests: '/m', nodeportAddresses: text }).nodePortAddresses;
    assert.deepEqual(of('primary'), { primary: true, cidrs: [] });
    assert.deepEqual(of('primary,localhost'), { primary: true, cidrs: ['127.0.0.0/8', '::1/128'] });
    assert.deepEqual(of('primary,10.0.0.0/8'), { primary: true, cidrs: ['10.0.0.0/8'] });
    assert.deepEqual(of('10.0.0.0/8,primary'), { primary: true, cidrs: ['10.0.0.0/8'] });
    assert.deepEqual(of('all'), { primary: false, cidrs: ['0.0.0.0/0', '::/0'] });
    assert.throws(() => of('10.0.0.0/99'), ConfigError);
  });

  it('names every wrong setting of conntrack', () => {
    const flags = { manifests: '/m', conntrackMin: '-1', conntrackMaxPerCore: 'many', conntrackUdpTimeout: '-1s' };
    assert.throws(
      () => configFromFlags(flags),
      /--conntrack-max-per-core=many: .*--conntrack-min=-1: .*--conntrack-udp-timeout=-1s: must not be negative/,
    );
  });

  it('admits no name of an interface that iptables refuses', () => {
    const flags = { manifests: '/m', detectLocalMode: 'InterfaceNamePrefix' };
    assert.throws(
      () => configFromFlags({ ...flags, podInterfaceNamePrefix: 'x'.repeat(15) }),
      /at most 1[45] characters/,
    );
    assert.deepEqual(configFromFlags({ ...flags, podInterfaceNamePrefix: 'cali' }).detectLocal, {
      kind: 'interface',
      name: 'cali+',
    });
    assert.throws(() => configFromFlags({ ...flags, podInterfaceNamePrefix: 'a b' }), ConfigError);
  });
});

describe('IPVS mode', () => {
  it('has periods of its own, and takes every flag of kube-proxy', () => {
    const flags: Flags = {
      mode: 'ipvs',
      ipvsScheduler: 'lc',
      ipvsSyncPeriod: '10s',
      ipvsExcludeCidrs: '203.0.113.0/24,2001:db8::/32',
      ipvsStrictArp: true,
      ipvsTcpTimeout: '15m',
      ipvsTcpfinTimeout: '2m',
      ipvsUdpTimeout: '5s',
    };
    const { mode, ipvs, syncPeriod, minSyncPeriod } = configFromFlags({ ...flags, iptablesSyncPeriod: '1h' });
    assert.deepEqual([mode, syncPeriod, minSyncPeriod], ['ipvs', 10_000, 0]);
    assert.deepEqual(ipvs, {
      scheduler: 'lc',
      excludeCidrs: ['203.0.113.0/24', '2001:db8::/32'],
      strictArp: true,
      tcpTimeout: 900,
      tcpFinTimeout: 120,
      udpTimeout: 5,
    });
  });

  it('reports every wrong value', () => {
    const wrong: Flags = { mode: 'ipvs', ipvsScheduler: 'r r', ipvsExcludeCidrs: 'x', ipvsTcpTimeout: '-1s' };
    assert.throws(
      () => configFromFlags(wrong),
      ({ message }: Error) =>
        ['--ipvs-scheduler=r r', '--ipvs-exclude-cidrs=x', '--ipvs-tcp-timeout=-1s'].every((flag) =>
          message.includes(flag),
        ),
    );
    assert.throws(() => configFromFlags({ mode: 'nosuch' }), /--mode=nosuch: must be iptables, ipvs, nftables or auto/);
  });

  it('is read from a file, where an empty scheduler is the default', () => {
    const text = KUBEADM.replace('mode: ""', 'mode: ipvs').replace(
      'excludeCIDRs: null',
      'excludeCIDRs: [203.0.113.0/24]',
    );
    const { flags } = flagsFromText(text, {});
    const { mode, ipvs } = configFromFlags(flags);
    assert.deepEqual([mode, ipvs.scheduler, ipvs.excludeCidrs], ['ipvs', 'rr', ['203.0.113.0/24']]);
  });
});
