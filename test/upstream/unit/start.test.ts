/** How kube-proxy's command reads its file and its flags, as the tests of its options have it; rows have their names. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ConfigError, type Flags } from '../../../src/config/flags.ts';
import { configFromFlags } from '../../../src/config/from-flags.ts';
import { flagsFromText } from '../../helpers/cluster/documents/documents.ts';

const HEAD = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\n';
const FILE = `${HEAD}kind: KubeProxyConfiguration
clientConnection: {acceptContentTypes: abc, burst: 100, contentType: application/json, kubeconfig: /path/to/kubeconfig, qps: 7}
conntrack: {maxPerCore: 2, min: 1, tcpCloseWaitTimeout: 10s, tcpEstablishedTimeout: 20s}
hostnameOverride: foo
iptables: {masqueradeAll: true, masqueradeBit: 17, minSyncPeriod: 10s, syncPeriod: 60s, localhostNodePorts: true}
ipvs: {minSyncPeriod: 10s, syncPeriod: 60s, excludeCIDRs: ["10.20.30.40/16", "fd00:1::0/64"]}
nftables: {masqueradeAll: true, masqueradeBit: 18, minSyncPeriod: 10s, syncPeriod: 60s}
oomScoreAdj: 17
detectLocalMode: ClusterCIDR
detectLocal: {bridgeInterface: cbr0, interfaceNamePrefix: veth}
nodePortAddresses: ["10.20.30.40/16", "fd00:1::0/64"]
`;

function load(text: string, commandLine: Flags = {}) {
  const { flags, origins, lenient } = flagsFromText(text, commandLine);
  return { config: configFromFlags(flags, { origins, file: 'config.conf' }), lenient };
}

interface Case {
  readonly mode?: string;
  readonly bind: string;
  readonly isIPv6?: boolean;
  readonly more?: string;
  readonly complaint?: RegExp;
}

describe('TestLoadConfig', () => {
  const ROWS: Readonly<Record<string, Case>> = {
    'iptables mode, IPv4 all-zeros bind address': { bind: '0.0.0.0' },
    'iptables mode, non-zeros IPv4 config': { bind: '9.8.7.6' },
    'iptables mode, IPv6 "::" bind address': { bind: '"::"', isIPv6: true },
    'iptables mode, IPv6 ::0 bind address': { bind: '::0', isIPv6: true },
    'ipvs mode, IPv6 config': { mode: 'ipvs', bind: '2001:db8::1', isIPv6: true },
    'unknown field': { bind: '9.8.7.6', more: 'foo: bar', complaint: /unknown field "foo"/ },
    'duplicate field': { bind: '9.8.7.6', more: 'bindAddress: 9.8.7.6', complaint: /"bindAddress" appears twice/ },
  };
  for (const [title, { mode = 'iptables', bind, isIPv6 = false, more = '', complaint }] of Object.entries(ROWS)) {
    it(title, () => {
      const [health, metrics] = isIPv6
        ? ['[fd00:1::5]:12345', '[fd00:2::5]:23456']
        : ['1.2.3.4:12345', '2.3.4.5:23456'];
      const cidr = isIPv6 ? 'fd00:1::/64' : '1.2.3.0/24';
      const own = `mode: ${mode}\nbindAddress: ${bind}\nclusterCIDR: ${cidr}\nhealthzBindAddress: "${health}"\n`;
      const { config, lenient } = load(`${FILE}${own}metricsBindAddress: "${metrics}"\n${more}\n`);
      assert.equal(config.mode, mode);
      assert.equal(config.nodeName, 'foo');
      assert.deepEqual([config.serve.healthz?.text, config.serve.metrics.text], [health, metrics]);
      assert.deepEqual([config.syncPeriod, config.minSyncPeriod, config.masqueradeBit], [60_000, 10_000, 17]);
      assert.equal(config.masqueradeAll, true);
      assert.deepEqual(config.nodePortAddresses.cidrs, ['10.20.0.0/16', 'fd00:1::/64']);
      assert.equal(lenient.length, complaint === undefined ? 0 : 1);
      if (complaint !== undefined) assert.match(lenient.join(), complaint);
    });
  }

  it('iptables mode, IPv6 "[::]" bind address', () => {
    assert.throws(() => load(`${FILE}bindAddress: "[::]"\n`), /bindAddress: \[::\]: must be/);
  });
});

describe('TestLoadConfigFailures', () => {
  const ROWS: Readonly<Record<string, string>> = {
    'Decode error test': 'Twas bryllyg, and ye slythy toves',
    'Bad config type test': 'kind: KubeSchedulerConfiguration',
    'Missing quotes around :: bindAddress': 'kind: KubeProxyConfiguration\nbindAddress: ::',
  };
  for (const [title, text] of Object.entries(ROWS)) {
    it(title, () => assert.throws(() => load(`${HEAD}${text}\n`), ConfigError));
  }
});

describe('TestProcessHostnameOverrideFlag', () => {
  const ROWS: Readonly<Record<string, [flag: string, name: string | undefined]>> = {
    'Hostname from config file': ['', 'foo'],
    'Hostname from flag': ['  bar ', 'bar'],
    'Hostname is space': ['   ', undefined],
  };
  for (const [title, [hostnameOverride, name]] of Object.entries(ROWS)) {
    it(title, () => {
      const read = () => load(FILE, { hostnameOverride }).config.nodeName;
      if (name === undefined) assert.throws(read, ConfigError);
      else assert.equal(read(), name);
    });
  }
});

describe('TestProcessV1Alpha1Flags', () => {
  const iptables = { iptablesSyncPeriod: '36s', iptablesMinSyncPeriod: '3s' };
  const ipvs = { ipvsSyncPeriod: '16s', ipvsMinSyncPeriod: '7s' };
  const ROWS: Readonly<Record<string, [flags: Flags, sync: number, min: number]>> = {
    'iptables configuration': [{ ...iptables, proxyMode: 'iptables' }, 36_000, 3000],
    'iptables + ipvs configuration with iptables mode': [{ ...iptables, ...ipvs, proxyMode: 'iptables' }, 36_000, 3000],
    'ipvs + iptables configuration with ipvs mode': [{ ...iptables, ...ipvs, proxyMode: 'ipvs' }, 16_000, 7000],
    'ipvs configuration': [{ ...ipvs, proxyMode: 'ipvs' }, 16_000, 7000],
  };
  for (const [title, [flags, sync, min]] of Object.entries(ROWS)) {
    it(title, () => {
      const { syncPeriod, minSyncPeriod } = configFromFlags(flags);
      assert.deepEqual([syncPeriod, minSyncPeriod], [sync, min]);
    });
  }
});

describe('Test_platformApplyDefaults', () => {
  const ROWS: Readonly<Record<string, [given: Flags, mode: string, detect: string]>> = {
    defaults: [{}, 'iptables', 'cluster-cidr'],
    explicit: [{ proxyMode: 'iptables', detectLocalMode: 'ClusterCIDR' }, 'iptables', 'cluster-cidr'],
    'override mode': [{ proxyMode: 'ipvs' }, 'ipvs', 'cluster-cidr'],
    'override detect-local': [{ detectLocalMode: 'NodeCIDR' }, 'iptables', 'node-cidr'],
    'override both': [{ proxyMode: 'ipvs', detectLocalMode: 'NodeCIDR' }, 'ipvs', 'node-cidr'],
  };
  for (const [title, [given, mode, detect]] of Object.entries(ROWS)) {
    it(title, () => {
      const config = configFromFlags(given);
      assert.equal(config.mode, mode);
      assert.equal(config.detectLocal.kind, detect);
    });
  }
});
