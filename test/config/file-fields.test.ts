/**
 * Every field of a KubeProxyConfiguration and every flag of kube-proxy, with values that are right and values that are wrong
 * (docs/semantics.md 10.1 to 10.5).
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { goArguments } from '../../src/cli/command-line.ts';
import { AGENT_FLAGS, IDLE_FLAGS } from '../../src/config/agent-flags.ts';
import { API_VERSION, BESIDE_FILE } from '../../src/config/config-file.ts';
import { FIELDS } from '../../src/config/file-fields.ts';
import { ConfigError, camel, type Flags } from '../../src/config/flags.ts';
import { configFromFlags } from '../../src/config/from-flags.ts';
import kubeProxy from '../data/kube-proxy-1.37.json' with { type: 'json' };
import { flagsFromText } from '../helpers/cluster/documents/documents.ts';

interface Row {
  readonly good: readonly unknown[];
  readonly bad: readonly unknown[];
  /** Other fields that must be set for it to count. */
  readonly beside?: Readonly<Record<string, unknown>>;
}

const anyText: Row = { good: ['', 'a'], bad: [1, true, ['a'], { a: 1 }] };
const boolean: Row = { good: [true, false], bad: ['true', 1, 'yes', []] };
const duration: Row = { good: ['5s', '1m30s', '100ms'], bad: ['5', 5, true, '-1s', 'soon', {}] };
const period: Row = { good: ['30s', '1h', '0s'], bad: ['x', 30, '-5s'] };
const count: Row = { good: [0, 7, 100_000], bad: [-1, 1.5, '7', true, 4_000_000_000] };
const listen: Row = {
  good: ['', '0.0.0.0', '0.0.0.0:10256', '[::]:1', '::1', '127.0.0.1:65535'],
  bad: ['localhost:1', '1.2.3.4:0', '1.2.3.4:65536', '1.2.3.4:', ':80', '1.2.3:80', 80],
};
const ipvs = { mode: 'ipvs' };
const nftables = { mode: 'nftables' };

const ROWS: Readonly<Record<string, Row>> = {
  mode: { good: ['', 'iptables', 'ipvs', 'nftables'], bad: ['kernelspace', 'userspace', 'IPTABLES', 1] },
  hostnameOverride: { good: ['', 'Node-1', ' n '], bad: [1] },
  bindAddress: { good: ['', '0.0.0.0', '::', '10.0.0.1', '010.0.0.1'], bad: ['nowhere', '10.0.0.0/8', 1] },
  healthzBindAddress: listen,
  metricsBindAddress: listen,
  clusterCIDR: {
    good: ['', '10.0.0.0/8', '10.0.0.0/8,fd00::/8'],
    bad: ['10.0.0.0', '10.0.0.0/33', '10.0.0.0/8,11.0.0.0/8', 'x', '10.0.0.0/8,fd00::/8,fd01::/16', ['10.0.0.0/8']],
  },
  detectLocalMode: { good: ['', 'ClusterCIDR', 'NodeCIDR'], bad: ['BridgeInterface', 'InterfaceNamePrefix', 'x', 1] },
  'detectLocal.bridgeInterface': {
    good: ['cbr0'],
    bad: ['', 'a b', '-j ACCEPT', 'sixteen-letters-', 1],
    beside: { detectLocalMode: 'BridgeInterface' },
  },
  'detectLocal.interfaceNamePrefix': {
    good: ['cali'],
    bad: ['', 'a/b', 'x+', 1],
    beside: { detectLocalMode: 'InterfaceNamePrefix' },
  },
  'clientConnection.kubeconfig': anyText,
  'clientConnection.acceptContentTypes': anyText,
  'clientConnection.contentType': {
    good: ['', 'application/json', 'application/vnd.kubernetes.protobuf'],
    bad: ['text/plain', 'json', 1],
  },
  'clientConnection.qps': { good: [0, 5, 0.5], bad: ['5', true] },
  'clientConnection.burst': { good: [0, 10], bad: [-1, 1.5, '10'] },
  'ipvs.scheduler': { good: ['', 'rr', 'wlc', 'mh'], bad: ['a b', '-h', 'x'.repeat(16), 1], beside: ipvs },
  'ipvs.excludeCIDRs': { good: [[], ['10.0.0.0/8']], bad: [['x'], ['10.0.0.1'], '10.0.0.0/8', [1]], beside: ipvs },
  'ipvs.strictARP': boolean,
  'ipvs.tcpTimeout': { ...duration, beside: ipvs },
  'ipvs.tcpFinTimeout': { ...duration, beside: ipvs },
  'ipvs.udpTimeout': { ...duration, beside: ipvs },
  'ipvs.syncPeriod': { ...period, beside: ipvs },
  'ipvs.minSyncPeriod': { good: ['0s', '30s'], bad: ['31s', '-1s', 1], beside: ipvs },
  'logging.format': { good: ['', 'text', 'json'], bad: ['xml', 1] },
  'logging.verbosity': { good: [0, 4], bad: [-1, '2', 1.5] },
  'logging.flushFrequency': { good: ['5s', 5_000_000_000], bad: ['5', true, 0.5] },
  'logging.vmodule': { good: [[{ filePattern: 'a', verbosity: 1 }]], bad: [] },
  'logging.options': { good: [{ text: { splitStream: true } }], bad: [] },
  bindAddressHardFail: boolean,
  enableProfiling: boolean,
  'iptables.masqueradeAll': boolean,
  'iptables.localhostNodePorts': boolean,
  'iptables.masqueradeBit': { good: [0, 14, 31], bad: [-1, 32, '14', 1.5] },
  'iptables.syncPeriod': period,
  'iptables.minSyncPeriod': { good: ['0s', '30s'], bad: ['31s', '-1s', 1] },
  'conntrack.tcpBeLiberal': boolean,
  'conntrack.maxPerCore': count,
  'conntrack.min': count,
  'conntrack.tcpEstablishedTimeout': duration,
  'conntrack.tcpCloseWaitTimeout': duration,
  'conntrack.udpTimeout': duration,
  'conntrack.udpStreamTimeout': duration,
  oomScoreAdj: { good: [-1000, 0, 1000], bad: [-1001, 1001, '0'] },
  configSyncPeriod: { good: ['15m', '0s'], bad: ['-1s', 1, 'x'] },
  nodePortAddresses: {
    good: [[], ['primary'], ['10.0.0.0/8', 'fd00::/8'], ['primary', 'localhost'], ['all']],
    bad: [['10.0.0.1'], ['none'], 'primary', [1]],
  },
  showHiddenMetricsForVersion: anyText,
  featureGates: {
    good: [{}, { NFTablesProxyMode: true, AllAlpha: false }, { AllowServiceExternalIPs: false }],
    bad: [{ AllAlpha: 'true' }, [], 'AllAlpha=true', { NoSuchGate: true }, { 'AllAlpha,AllBeta': true }],
  },
  'nftables.masqueradeBit': { good: [0, 14, 31], bad: [-1, 32, '14', 1.5], beside: nftables },
  'nftables.masqueradeAll': { ...boolean, beside: nftables },
  'nftables.syncPeriod': { ...period, beside: nftables },
  'nftables.minSyncPeriod': { good: ['0s', '30s'], bad: ['31s', '-1s', 1], beside: nftables },
  portRange: anyText,
  'winkernel.networkName': anyText,
  'winkernel.sourceVip': anyText,
  'winkernel.rootHnsEndpointName': anyText,
  'winkernel.enableDSR': boolean,
  'winkernel.forwardHealthCheckVip': boolean,
  windowsRunAsService: boolean,
};

/** A file with one field, and what it needs beside. */
function fileWith(path: string, value: unknown, beside: Readonly<Record<string, unknown>> = {}): string {
  const [section = '', field] = path.split('.');
  const one = field === undefined ? { [section]: value } : { [section]: { [field]: value } };
  return JSON.stringify({ apiVersion: API_VERSION, kind: 'KubeProxyConfiguration', ...beside, ...one });
}

function read(text: string) {
  const { flags, origins, idle, lenient } = flagsFromText(text, {});
  return { config: configFromFlags(flags, { origins, file: 'config.conf' }), idle, lenient };
}

const wrongWith = (name: string) => (error: unknown) =>
  error instanceof ConfigError && error.message.includes(name) && !error.message.includes('\n');

describe('fields of a KubeProxyConfiguration', () => {
  it('are all in this table', () => {
    assert.deepEqual(Object.keys(ROWS).sort(), FIELDS.map(({ path }) => path).sort());
  });

  for (const field of FIELDS) {
    const { path, flag, idle: why } = field;
    const { good, bad, beside } = ROWS[path] ?? assert.fail();
    it(`${path}: ${good.length} right values, ${bad.length} wrong ones`, () => {
      assert.ok((flag === undefined) !== (why === undefined));
      for (const value of good) {
        const { idle, lenient } = read(fileWith(path, value, beside));
        const isZero = ['', 0, false].includes(value as string) || JSON.stringify(value) === '{}';
        assert.deepEqual(lenient, []);
        assert.deepEqual(
          idle.map((one) => one.path),
          why !== undefined && !isZero ? [path] : [],
          JSON.stringify(value),
        );
      }
      // A missing name is reported by its empty field, or by the flag with the same meaning.
      for (const value of bad) {
        assert.throws(
          () => read(fileWith(path, value, beside)),
          wrongWith(value === '' || path === 'detectLocalMode' ? ':' : path),
          JSON.stringify(value),
        );
      }
    });
  }

  it('are all reported together when several are wrong', () => {
    const text = fileWith('iptables.masqueradeBit', 99, { mode: 'x', oomScoreAdj: 5000, clusterCIDR: 'y' });
    assert.throws(
      () => read(text),
      ({ message }: Error) =>
        [
          'iptables.masqueradeBit: 99: must be',
          'mode: x: must be',
          'oomScoreAdj: 5000: must be',
          'clusterCIDR: y: must be',
        ].every((part) => message.includes(part)),
    );
  });

  it('that are unknown or repeated are read leniently, and reported (docs/semantics.md 10.1)', () => {
    const head = `apiVersion: ${API_VERSION}\nkind: KubeProxyConfiguration\n`;
    const { config, lenient } = read(`${head}mode: iptables\nmode: ipvs\nipvs: {shceduler: rr}\nextra: 1\n`);
    assert.equal(config.mode, 'ipvs');
    assert.equal(lenient.length, 3);
    assert.match(
      lenient.join(),
      /line 4, column 1: the key "mode" appears twice.*unknown field "ipvs.shceduler".*unknown field "extra"/,
    );
    assert.throws(() => read(`${head}iptables: 5\n`), /iptables: 5: must be a map of fields/);
  });

  it('of another mode are not checked (docs/semantics.md 10.3)', () => {
    assert.equal(read(fileWith('ipvs.tcpTimeout', '-1s', { mode: 'iptables' })).config.ipvs.tcpTimeout, 0);
  });
});

describe('flags of kube-proxy', () => {
  /** With a value each that is right, and one that is wrong where there is one. */
  const FLAGS: Readonly<Record<string, readonly [good: string | boolean, bad?: string]>> = {
    kubeconfig: ['/k'],
    master: ['https://x'],
    'hostname-override': ['n', ' '],
    'bind-address': ['10.0.0.1', 'x'],
    'healthz-bind-address': ['10.0.0.1', 'x:1'],
    'metrics-bind-address': ['10.0.0.1:1', '10.0.0.1:0'],
    'healthz-port': ['0', '70000'],
    'metrics-port': ['5', '0'],
    'bind-address-hard-fail': [true, 'x'],
    profiling: ['T', 'yes'],
    'proxy-mode': ['ipvs', 'x'],
    'iptables-masquerade-bit': ['5', '32'],
    'masquerade-all': [true, 'x'],
    'iptables-localhost-nodeports': ['false', 'x'],
    'iptables-sync-period': ['1m', '0s'],
    'iptables-min-sync-period': ['0s', '31s'],
    'detect-local-mode': ['NodeCIDR', 'x'],
    'pod-bridge-interface': ['x'],
    'pod-interface-name-prefix': ['x'],
    'cluster-cidr': ['10.0.0.0/8', 'x'],
    'nodeport-addresses': ['primary', 'x'],
    'oom-score-adj': ['5', '1001'],
    'conntrack-max-per-core': ['5', '-1'],
    'conntrack-min': ['5', 'x'],
    'conntrack-tcp-timeout-established': ['5s', '-5s'],
    'conntrack-tcp-timeout-close-wait': ['5s', '5'],
    'conntrack-tcp-be-liberal': [true, 'x'],
    'conntrack-udp-timeout': ['5s', '-5s'],
    'conntrack-udp-timeout-stream': ['5s', '-5s'],
    'config-sync-period': ['5s', '0s'],
    'feature-gates': ['AllowServiceExternalIPs=false,TopologyAwareHints=true', 'NoSuchGate=true'],
    'kube-api-burst': ['5', '-5'],
    'logging-format': ['json', 'xml'],
    v: ['4', 'x'],
  };

  for (const [flag, [good, bad]] of Object.entries(FLAGS)) {
    it(`--${flag}`, () => {
      const flags = (value: string | boolean): Flags => ({ [camel(flag)]: value });
      configFromFlags(flags(good));
      if (bad !== undefined) assert.throws(() => configFromFlags(flags(bad)), wrongWith(`--${flag}=`));
    });
  }

  it('are written as Go’s too', () => {
    assert.deepEqual(goArguments(['run', '-v=4', '--cleanup=true', '--init-only=f', '--profiling=true']), [
      ...['run', '-v', '4', '--cleanup', '--profiling=true'],
    ]);
    assert.throws(() => goArguments(['--once=x']), { code: 'CONFIG', message: '--once=x: must be true or false' });
    const isOn = (profiling: string) => configFromFlags({ profiling }).serve.profiling;
    assert.deepEqual(
      [isOn('T'), isOn('0'), configFromFlags({ hostnameOverride: '' }).isNodeNamed],
      [true, false, false],
    );
  });

  it('of ports alone are deprecated: they fill in the port, and a file makes them idle (docs/semantics.md 10.5)', () => {
    const serve = (flags: Flags, file?: string) => configFromFlags(flags, file === undefined ? {} : { file }).serve;
    assert.equal(serve({ healthzPort: '5' }).healthz?.text, '0.0.0.0:5');
    assert.equal(serve({ healthzPort: '5', healthzBindAddress: '[::1]:6' }).healthz?.text, '[::1]:6');
    assert.equal(serve({ healthzPort: '0' }).healthz, undefined);
    assert.equal(serve({ healthzPort: '0' }, 'config.conf').healthz?.text, '0.0.0.0:10256');
    assert.equal(serve({ bindAddress: '::' }).metrics.text, '[::1]:10249');
  });

  it('of an address for /metrics alone give one that no other server has, and count beside a file', () => {
    const scrape = (flags: Flags) => configFromFlags(flags).serve.scrape?.text;
    assert.equal(scrape({}), undefined);
    assert.equal(scrape({ scrapeBindAddress: '192.0.2.7' }), '192.0.2.7:10249');
    assert.equal(scrape({ scrapeBindAddress: 'fd00::7' }), '[fd00::7]:10249');
    assert.equal(scrape({ scrapeBindAddress: '[fd00::7]:9249' }), '[fd00::7]:9249');
    assert.equal(scrape({ scrapeBindAddress: '0.0.0.0:9249' }), '0.0.0.0:9249');
    // The metrics server serves it already.
    assert.equal(scrape({ scrapeBindAddress: '192.0.2.7', metricsBindAddress: '0.0.0.0' }), undefined);
    assert.equal(scrape({ scrapeBindAddress: '192.0.2.7', metricsBindAddress: '192.0.2.7' }), undefined);
    assert.equal(scrape({ scrapeBindAddress: '192.0.2.7', metricsBindAddress: '192.0.2.7:9000' }), '192.0.2.7:10249');
    const beside = flagsFromText('apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n', {
      scrapeBindAddress: '192.0.2.7',
      metricsBindAddress: '192.0.2.8',
    });
    const { metrics, scrape: own } = configFromFlags(beside.flags, { file: 'config.conf' }).serve;
    assert.deepEqual([metrics.text, own?.text], ['127.0.0.1:10249', '192.0.2.7:10249']);
  });

  it('of who may read /programmed ask for a token unless told otherwise, and count beside a file', () => {
    const asks = (flags: Flags) => configFromFlags(flags).serve.programmedAuthentication;
    assert.deepEqual([asks({}), asks({ programmedAuthentication: true })], [true, true]);
    assert.equal(asks({ programmedAuthentication: 'false' }), false);
    const head = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n';
    const { flags } = flagsFromText(head, { programmedAuthentication: 'false' });
    assert.equal(configFromFlags(flags, { file: 'config.conf' }).serve.programmedAuthentication, false);
  });

  it('of slicewire alone count beside a file: no field of the file has them', () => {
    const ofKubeProxy = new Set(kubeProxy.flags.map(({ name }) => name));
    const fields = new Set(FIELDS.map(({ flag }) => flag));
    const own = AGENT_FLAGS.flatMap(({ flags }) => flags.map(({ name }) => name)).filter(
      (name) => !ofKubeProxy.has(name),
    );
    assert.ok(own.length > 10, `${own.length} flags`);
    const forgotten = own.filter((name) => !fields.has(name) && !BESIDE_FILE.includes(camel(name)));
    assert.deepEqual(forgotten, []);
  });

  it('without an effect have a reason', () => {
    assert.ok(IDLE_FLAGS.length > 5);
    for (const { name, why } of IDLE_FLAGS) assert.ok(why.length > 5, name);
  });
});
