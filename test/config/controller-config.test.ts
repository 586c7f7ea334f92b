import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { describe, it } from 'node:test';
import { CONTROLLERS, controllerConfig } from '../../src/config/controller-config.ts';
import { ConfigError, type Flags } from '../../src/config/flags.ts';

function faultsOf(flags: Flags): string {
  try {
    controllerConfig(flags);
  } catch (error) {
    assert.ok(error instanceof ConfigError);
    return error.message;
  }
  return 'none';
}

describe('configuration of the controllers', () => {
  it('has kube-controller-manager’s defaults', () => {
    const { leader, ...config } = controllerConfig({});
    assert.deepEqual(config, {
      kubeconfig: undefined,
      master: undefined,
      controllers: new Set(CONTROLLERS),
      requests: undefined,
      slices: { workers: 5, mostPerSlice: 100, batchPeriod: 0 },
      endpoints: { workers: 5, batchPeriod: 0 },
      mirror: { workers: 5, mostPerSubset: 1000, batchPeriod: 0 },
      listen: { address: '127.0.0.1', port: 10_261, text: '127.0.0.1:10261' },
      scrape: undefined,
      connectionsPerClient: 16,
      log: { format: 'auto', verbosity: 0 },
    });
    assert.ok(leader);
    const { identity, ...lease } = leader;
    assert.deepEqual(lease, {
      namespace: 'kube-system',
      name: 'slicewire-controller',
      leaseDuration: 15_000,
      renewDeadline: 10_000,
      retryPeriod: 2000,
    });
    assert.ok(identity.startsWith(`${hostname()}_`), identity);
  });

  it('takes the values of all flags', () => {
    const { leader, ...config } = controllerConfig({
      kubeconfig: '/k',
      master: 'https://api:6443',
      controllers: 'endpoints-controller',
      kubeApiQps: '12.5',
      kubeApiBurst: '7',
      maxEndpointsPerSlice: '1000',
      concurrentServiceEndpointSyncs: '1',
      concurrentEndpointSyncs: '2',
      mirroringConcurrentServiceEndpointSyncs: '3',
      mirroringMaxEndpointsPerSubset: '4',
      endpointsliceUpdatesBatchPeriod: '500ms',
      endpointUpdatesBatchPeriod: '1s',
      mirroringEndpointsliceUpdatesBatchPeriod: '1m',
      leaderElectLeaseDuration: '1m',
      leaderElectRenewDeadline: '40s',
      leaderElectRetryPeriod: '5s',
      leaderElectResourceName: 'kube-controller-manager',
      leaderElectResourceNamespace: 'proxies',
      bindAddress: '[::]:9000',
      scrapeBindAddress: '192.0.2.7',
      maxConnectionsPerClient: '40',
      loggingFormat: 'json',
      v: '4',
    });
    assert.deepEqual(config, {
      kubeconfig: '/k',
      master: 'https://api:6443',
      controllers: new Set(['endpoints-controller']),
      requests: { perSecond: 12.5, burst: 7 },
      slices: { workers: 1, mostPerSlice: 1000, batchPeriod: 500 },
      endpoints: { workers: 2, batchPeriod: 1000 },
      mirror: { workers: 3, mostPerSubset: 4, batchPeriod: 60_000 },
      listen: { address: '::', port: 9000, text: '[::]:9000' },
      scrape: { address: '192.0.2.7', port: 10_261, text: '192.0.2.7:10261' },
      connectionsPerClient: 40,
      log: { format: 'json', verbosity: 4 },
    });
    const { identity, ...lease } = leader ?? { identity: '' };
    assert.notEqual(identity, '');
    assert.deepEqual(lease, {
      namespace: 'proxies',
      name: 'kube-controller-manager',
      leaseDuration: 60_000,
      renewDeadline: 40_000,
      retryPeriod: 5000,
    });
  });

  it('names each replica otherwise, two on one host as well', () => {
    assert.notEqual(controllerConfig({}).leader?.identity, controllerConfig({}).leader?.identity);
  });

  for (const [given, requests] of [
    ['20', { perSecond: 20, burst: 30 }],
    ['-1', undefined],
    ['-0.5', undefined],
  ] as const) {
    it(`--kube-api-qps=${given}: ${requests === undefined ? 'no limit' : 'a limit'}`, () => {
      assert.deepEqual(controllerConfig({ kubeApiQps: given }).requests, requests);
    });
  }

  for (const [given, isElected] of [
    [true, true],
    ['true', true],
    ['false', false],
    ['0', false],
  ] as const) {
    it(`--leader-elect=${given}: ${isElected ? 'waits for a lease' : 'works without one'}`, () => {
      assert.equal(controllerConfig({ leaderElect: given }).leader !== undefined, isElected);
    });
  }

  it('empty texts are the defaults', () => {
    const { leader, listen } = controllerConfig({
      bindAddress: '',
      leaderElectResourceName: '',
      leaderElectResourceNamespace: '',
    });
    assert.deepEqual(
      [listen.text, leader?.namespace, leader?.name],
      ['127.0.0.1:10261', 'kube-system', 'slicewire-controller'],
    );
  });

  const [slices, endpoints, mirror] = CONTROLLERS;
  for (const [text, names] of [
    ['*', [slices, endpoints, mirror]],
    [slices, [slices]],
    [` ${mirror} , ${endpoints},`, [endpoints, mirror]],
    [`*,-${mirror}`, [slices, endpoints]],
    [`-${slices},*`, [endpoints, mirror]],
    [`-${slices}`, [endpoints, mirror]],
    [`*,-${slices},-${endpoints}`, [mirror]],
  ] as const) {
    it(`--controllers=${text}`, () => {
      assert.deepEqual(controllerConfig({ controllers: text }).controllers, new Set(names));
    });
  }

  const NONE = `is not a controller; choose from ${CONTROLLERS.join(', ')}; * means all of them, and a - before a name leaves it out`;
  const COUNT = 'must be a whole number from 1 to 1000';
  const RATE = 'must be a number of requests a second above 0, or a negative number for no limit';
  const DURATION = 'must be a duration such as 30s or 1m30s';
  const NAME = 'must be a name: lower-case letters, digits, - and ., at most 253 characters';
  const SHORTER = 'must be shorter than --leader-elect-lease-duration, which is 15s by default';
  const LONGER = 'must be longer than --leader-elect-renew-deadline, which is 10s by default';
  const PERIOD =
    'must be more than 0, and 1.2 times this period must be less than --leader-elect-renew-deadline, which is 10s';
  const LISTEN = 'must be an IP address, or one with a port from 1 to 65535, such as 0.0.0.0:10261';
  const cases: readonly [Flags, string][] = [
    [{ controllers: '*,nodes' }, `--controllers=*,nodes: nodes ${NONE}`],
    [
      { controllers: '*,--endpoints-controller' },
      `--controllers=*,--endpoints-controller: --endpoints-controller ${NONE}`,
    ],
    [{ controllers: '*,-*' }, `--controllers=*,-*: -* ${NONE}`],
    [{ controllers: '' }, '--controllers=: must name at least one controller'],
    [{ controllers: `${slices},-${slices}` }, `--controllers=${slices},-${slices}: must name at least one controller`],
    [{ kubeApiQps: '0' }, `--kube-api-qps=0: ${RATE}`],
    [{ kubeApiQps: 'many' }, `--kube-api-qps=many: ${RATE}`],
    [{ kubeApiQps: '' }, `--kube-api-qps=: ${RATE}`],
    [{ kubeApiBurst: '0' }, '--kube-api-burst=0: must be a whole number from 1 to 100000'],
    [{ maxEndpointsPerSlice: '0' }, `--max-endpoints-per-slice=0: ${COUNT}`],
    [{ maxEndpointsPerSlice: '1001' }, `--max-endpoints-per-slice=1001: ${COUNT}`],
    [{ concurrentServiceEndpointSyncs: '0' }, `--concurrent-service-endpoint-syncs=0: ${COUNT}`],
    [{ concurrentEndpointSyncs: '-1' }, `--concurrent-endpoint-syncs=-1: ${COUNT}`],
    [{ mirroringConcurrentServiceEndpointSyncs: '1.5' }, `--mirroring-concurrent-service-endpoint-syncs=1.5: ${COUNT}`],
    [{ mirroringMaxEndpointsPerSubset: 'all' }, `--mirroring-max-endpoints-per-subset=all: ${COUNT}`],
    [{ endpointsliceUpdatesBatchPeriod: '5' }, `--endpointslice-updates-batch-period=5: ${DURATION}`],
    [{ endpointUpdatesBatchPeriod: '-1s' }, '--endpoint-updates-batch-period=-1s: must not be negative'],
    [{ mirroringEndpointsliceUpdatesBatchPeriod: '' }, `--mirroring-endpointslice-updates-batch-period=: ${DURATION}`],
    [{ leaderElect: 'maybe' }, '--leader-elect=maybe: must be true or false'],
    [{ leaderElectLeaseDuration: '15' }, `--leader-elect-lease-duration=15: ${DURATION}`],
    [{ leaderElectRenewDeadline: 'soon' }, `--leader-elect-renew-deadline=soon: ${DURATION}`],
    [{ leaderElectRetryPeriod: '2' }, `--leader-elect-retry-period=2: ${DURATION}`],
    [
      {
        leaderElectLeaseDuration: '999ms',
        leaderElectRenewDeadline: '900ms',
        leaderElectRetryPeriod: '100ms',
      },
      '--leader-elect-lease-duration=999ms: must be at least 1s',
    ],
    [{ leaderElectRenewDeadline: '15s' }, `--leader-elect-renew-deadline=15s: ${SHORTER}`],
    [{ leaderElectLeaseDuration: '10s' }, `--leader-elect-lease-duration=10s: ${LONGER}`],
    [{ leaderElectRetryPeriod: '0s' }, `--leader-elect-retry-period=0s: ${PERIOD}`],
    [{ leaderElectRetryPeriod: '9s' }, `--leader-elect-retry-period=9s: ${PERIOD}`],
    [{ leaderElectResourceName: 'a/b' }, `--leader-elect-resource-name=a/b: ${NAME}`],
    [{ leaderElectResourceNamespace: 'Kube' }, `--leader-elect-resource-namespace=Kube: ${NAME}`],
    [{ bindAddress: 'localhost' }, `--bind-address=localhost: ${LISTEN}`],
    [{ bindAddress: '0.0.0.0:0' }, `--bind-address=0.0.0.0:0: ${LISTEN}`],
    [{ loggingFormat: 'xml' }, '--logging-format=xml: must be auto, json or text'],
    [{ v: '-1' }, '--v=-1: must be a whole number from 0 to 2147483647'],
  ];
  for (const [flags, fault] of cases) {
    it(`reports the fault of ${JSON.stringify(flags)}, and it alone`, () => assert.equal(faultsOf(flags), fault));
  }

  it('reports all faults together', () => {
    assert.equal(
      faultsOf({ v: '-1', bindAddress: 'x', maxEndpointsPerSlice: '0' }),
      [
        `--max-endpoints-per-slice=0: ${COUNT}`,
        `--bind-address=x: ${LISTEN}`,
        '--v=-1: must be a whole number from 0 to 2147483647',
      ].join('; '),
    );
  });
});
