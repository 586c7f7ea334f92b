/** Endpoints of a Service with a selector: subsets, the limit of 1,000 addresses, and when they are written. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type {
  EndpointsObject,
  EndpointsSubset,
  PodView,
  SelectingService,
} from '../../../src/cluster/producers/api-objects.ts';
import { OVER_CAPACITY_ANNOTATION, reconcileEndpoints } from '../../../src/cluster/producers/endpoints-object.ts';
import { HEADLESS_LABEL, TRIGGER_ANNOTATION } from '../../../src/proxy/model/labels.ts';
import { podView, podViews, portTo, serviceView } from '../../helpers/cluster/producers/producing.ts';

/** Its name, in the words of Kubernetes 1.33 and later. */
const MANAGED = { 'endpoints.kubernetes.io/managed-by': 'endpoint-controller' };

function made(pods: readonly PodView[], service: SelectingService = serviceView(), existing?: EndpointsObject) {
  return reconcileEndpoints({ service, pods, existing, triggeredAt: 0 });
}

function must(endpoints: EndpointsObject | undefined): EndpointsObject {
  assert.ok(endpoints, 'something is to be written');
  return endpoints;
}

function subsets(pods: readonly PodView[], service?: SelectingService): readonly EndpointsSubset[] {
  return must(made(pods, service)).subsets;
}

/** Pod numbers and port numbers of each subset. */
function numbers(list: readonly EndpointsSubset[]) {
  const pods = (addresses: EndpointsSubset['addresses']) =>
    (addresses ?? []).map(({ targetRef }) => Number(targetRef?.name?.slice('pod-'.length)));
  return list.map(({ addresses, notReadyAddresses, ports = [] }) => ({
    ready: pods(addresses),
    notReady: pods(notReadyAddresses),
    ports: ports.map(({ port }) => port),
  }));
}

function sizes(list: readonly EndpointsSubset[]) {
  return list.map(({ addresses = [], notReadyAddresses = [] }) => [addresses.length, notReadyAddresses.length]);
}

const named = (port: number) => ({ ports: [{ name: 'main', protocol: 'TCP', port } as const] });

describe('subsets', () => {
  it('have the node, the reference and the host name of each Pod', () => {
    const pod = podView(1, { hostname: 'web-0', subdomain: 'web' });
    assert.deepEqual(subsets([pod]), [
      {
        addresses: [
          {
            ip: '10.244.0.2',
            hostname: 'web-0',
            nodeName: 'node-a',
            targetRef: { kind: 'Pod', namespace: 'default', name: 'pod-1', uid: 'pod-uid-1' },
          },
        ],
        ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      },
    ]);
  });

  it('have all ports that the same Pods have', () => {
    const service = serviceView({ ports: [portTo(8080), portTo(9090, { name: 'admin', appProtocol: 'http' })] });
    assert.deepEqual(numbers(subsets(podViews(1, 3), service)), [
      { ready: [1, 2, 3], notReady: [], ports: [8080, 9090] },
    ]);
  });

  it('have one number of a port for each protocol', () => {
    const ports = (['TCP', 'UDP', 'SCTP'] as const).map((protocol) => portTo(8080, { name: protocol, protocol }));
    const [subset, ...others] = subsets([podView(1)], serviceView({ ports }));
    assert.deepEqual(
      [subset?.ports?.map(({ port, protocol }) => `${port}/${protocol}`), others],
      [['8080/TCP', '8080/UDP', '8080/SCTP'], []],
    );
  });

  it('are several when a named port has several numbers', () => {
    const service = serviceView({ ports: [portTo('main'), portTo(7070, { name: 'fixed' })] });
    const pods = [podView(1, named(8080)), podView(2, named(9090)), podView(3)];
    assert.deepEqual(numbers(subsets(pods, service)), [
      { ready: [1], notReady: [], ports: [8080] },
      { ready: [1, 2, 3], notReady: [], ports: [7070] },
      { ready: [2], notReady: [], ports: [9090] },
    ]);
  });

  it('list Pods that are not ready separately, and omit terminating and finished ones', () => {
    const pods = [
      podView(1),
      podView(2, { ready: false }),
      podView(3, { terminating: true }),
      podView(4, { finished: true }),
    ];
    assert.deepEqual(numbers(subsets(pods)), [{ ready: [1], notReady: [2], ports: [8080] }]);
    assert.deepEqual(numbers(subsets(pods, serviceView({ publishNotReady: true }))), [
      { ready: [1, 2, 3], notReady: [], ports: [8080] },
    ]);
  });

  it('have addresses only of the first family, and omit Pods without one', () => {
    const only4 = podView(2, { addresses: podView(2).addresses.slice(0, 1) });
    const found = subsets([podView(1), only4], serviceView({ families: ['IPv6', 'IPv4'] }));
    assert.deepEqual(
      found.flatMap(({ addresses = [] }) => addresses.map(({ ip }) => ip)),
      ['fd00:244::1:2'],
    );
  });

  it('need no ports for a headless Service without ports', () => {
    const headless = serviceView({ isHeadless: true, ports: [] });
    assert.deepEqual(numbers(subsets([podView(1)], headless)), [{ ready: [1], notReady: [], ports: [] }]);
    assert.deepEqual(subsets([podView(1)], serviceView({ ports: [portTo('nowhere')] })), []);
  });
});

describe('over 1,000 addresses', () => {
  it('1,000 remain, and the annotation says so', () => {
    const { subsets: cut, metadata } = must(made(podViews(1, 1001)));
    assert.deepEqual(sizes(cut), [[1000, 0]]);
    assert.equal(metadata.annotations?.[OVER_CAPACITY_ANNOTATION], 'truncated');
  });

  it('ready ones come first', () => {
    const pods = [...podViews(1, 500, { ready: false }), ...podViews(501, 1300)];
    assert.deepEqual(sizes(subsets(pods)), [[800, 200]]);
    assert.deepEqual(sizes(subsets([...pods, ...podViews(1301, 1500)])), [[1000, 0]]);
  });

  it('each subset keeps its share, in any order of the Pods', () => {
    const service = serviceView({ ports: [portTo('main')] });
    const pods = [...podViews(1, 750, named(8080)), ...podViews(751, 1501, named(9090))];
    const written = must(made(pods, service));
    assert.deepEqual(sizes(written.subsets), [
      [500, 0],
      [500, 0],
    ]);
    assert.equal(made(pods.toReversed(), service, written), undefined);
  });

  it('no subset is without addresses, because the API server would refuse the object', () => {
    const service = serviceView({ ports: [portTo('main')] });
    const pods = [...podViews(1, 1100, named(8080)), ...podViews(1101, 1110, { ...named(9090), ready: false })];
    assert.deepEqual(sizes(subsets(pods, service)), [[1000, 0]]);
  });

  it('the annotation is removed when they fit again; before, nothing is written', () => {
    const over = must(made(podViews(1, 1001)));
    assert.equal(made(podViews(1, 1001), serviceView(), over), undefined);
    const { metadata } = must(made(podViews(1, 1000), serviceView(), over));
    assert.deepEqual(metadata.annotations, {});
  });
});

describe('existing Endpoints', () => {
  const service = serviceView({
    ports: [portTo('main'), portTo(7070, { name: 'fixed' })],
    labels: { tier: 'front' },
  });
  const pods = [podView(1, named(8080)), podView(2, named(9090)), podView(3, { ready: false })];
  const written = must(made(pods, service));

  it('are not written when only the order differs', () => {
    const reversed = {
      ...written,
      subsets: written.subsets
        .map(({ addresses, notReadyAddresses, ports }) => ({
          ...(addresses ? { addresses: addresses.toReversed() } : {}),
          ...(notReadyAddresses ? { notReadyAddresses: notReadyAddresses.toReversed() } : {}),
          ...(ports ? { ports: ports.toReversed() } : {}),
        }))
        .toReversed(),
    };
    assert.notDeepEqual(reversed, written);
    assert.equal(made(pods, service, reversed), undefined);
    assert.equal(made(pods.toReversed(), service, written), undefined);
  });

  it('are written for any other difference', () => {
    const [first = podView(1), ...others] = pods;
    const changes: Partial<PodView>[] = [
      { ready: false },
      { nodeName: 'node-b' },
      { uid: 'another' },
      { addresses: podView(9).addresses },
      named(8081),
    ];
    for (const change of changes) assert.ok(made([{ ...first, ...change }, ...others], service, written));
    assert.ok(made(others, service, written));
    assert.ok(made(pods, { ...service, labels: {} }, written));
    assert.ok(made(pods, { ...service, isHeadless: true }, written));
  });

  it('keep metadata of other writers, except labels', () => {
    const before: EndpointsObject = {
      ...written,
      metadata: {
        ...written.metadata,
        resourceVersion: '7',
        labels: { other: 'x' },
        annotations: { other: 'x', [TRIGGER_ANNOTATION]: '2026-01-01T00:00:00Z' },
      },
    };
    const { metadata } = must(made(pods, service, before));
    assert.equal(metadata.resourceVersion, '7');
    assert.deepEqual(metadata.labels, { ...MANAGED, tier: 'front' });
    assert.deepEqual(metadata.annotations, { other: 'x' });
  });

  it('have the time of the change', () => {
    const at = (triggeredAt: number) => reconcileEndpoints({ service, pods, existing: undefined, triggeredAt });
    const annotation = (triggeredAt: number) => at(triggeredAt)?.metadata.annotations?.[TRIGGER_ANNOTATION];
    assert.equal(annotation(Date.UTC(2026, 0, 2, 3, 4, 5)), '2026-01-02T03:04:05Z');
    assert.equal(annotation(0), undefined);
  });

  it('have the name of their controller, whatever the Service says', () => {
    const labels = { 'endpoints.kubernetes.io/managed-by': 'somebody' };
    assert.deepEqual(must(made(pods, { ...service, labels })).metadata.labels, MANAGED);
    const older = { ...written, metadata: { ...written.metadata, labels: { tier: 'front' } } };
    assert.deepEqual(must(made(pods, service, older)).metadata.labels, { ...MANAGED, tier: 'front' });
  });

  it('have the label of headless Services only for these', () => {
    const labels = { ...MANAGED, [HEADLESS_LABEL]: '', tier: 'front' };
    assert.deepEqual(must(made(pods, { ...service, labels })).metadata.labels, { ...MANAGED, tier: 'front' });
    assert.deepEqual(must(made(pods, { ...service, isHeadless: true })).metadata.labels, labels);
  });
});
