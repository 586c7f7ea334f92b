/** The unit tests of kube-controller-manager's controller of Endpoints: what holds them. A test stands for all rows of its table. */
import type { UpstreamCase, UpstreamFile } from '../cases.ts';

const ENDPOINTS = 'test/cluster/producers/endpoints-object.test.ts';
const CONTROLLER = 'test/controller/controller.test.ts';
const PRODUCED = 'test/cluster/producers/golden-cases.test.ts';

type Held = Readonly<Record<string, readonly string[]>>;

const by = (title: string, tests: Held, more: Partial<UpstreamCase> = {}): UpstreamCase => ({ title, tests, ...more });
const not = (title: string, why: string): UpstreamCase => ({ title, not: why });
/** What kube-controller-manager 1.36 wrote in these recorded cases. */
const golden = (...names: readonly string[]): Held => ({
  [PRODUCED]: names.map((name) => `${name}: the same are written, step by step`),
});

const READINESS = 'list Pods that are not ready separately, and omit terminating and finished ones';
const BATCH = 'changes of Pods within the batch period are one write';
const BATCHES = 'one batch is tried, of new Pods; not several of them';
const BEHIND = 'nothing is done on the strength of a cache that is behind';
const EMPTY_SELECTOR = 'the API server leaves an empty selector out, and slicewire takes one as none';

export const ENDPOINTS_CONTROLLER: UpstreamFile = {
  path: 'pkg/controller/endpoint/endpoints_controller_test.go',
  cases: [
    by('TestSyncEndpointsItemsPreserveNoSelector', golden('mirrored')),
    by('TestSyncEndpointsExistingNilSubsets', { [CONTROLLER]: ['started on a correct state they write nothing'] }),
    by('TestSyncEndpointsExistingEmptySubsets', { [CONTROLLER]: ['started on a correct state they write nothing'] }),
    by('TestSyncEndpointsNewNoSubsets', golden('ports')),
    by('TestCheckLeftoverEndpoints', {
      [CONTROLLER]: [
        'remove what they wrote for a Service that is gone',
        'remove Endpoints whose last change had no time',
      ],
    }),
    by('TestSyncEndpointsProtocolTCP', golden('ports')),
    by('TestSyncEndpointsProtocolUDP', golden('ports')),
    by('TestSyncEndpointsProtocolSCTP', { [ENDPOINTS]: ['have one number of a port for each protocol'] }),
    by('TestSyncEndpointsProtocolMultiProtocolSamePort', {
      [ENDPOINTS]: ['have one number of a port for each protocol'],
    }),
    by('TestSyncEndpointsWithPodResourceVersionUpdateOnly', {
      'test/cluster/producers/membership.test.ts': ['without a difference concerns no Service'],
    }),
    ...['TestPodUpdatesBatching', 'TestPodAddsBatching', 'TestPodDeleteBatching'].map((title) =>
      by(title, { [CONTROLLER]: [BATCH] }, { not: BATCHES }),
    ),
    ...['TestMultipleServiceChanges', 'TestMultiplePodChanges'].map((title) =>
      by(title, { [CONTROLLER]: [BEHIND] }, { not: 'it shows this with slices alone' }),
    ),
    not('TestPodToEndpointAddressForServiceEmptyIPFamilies', 'the API server fills in the families of every Service'),
    by('TestSyncEndpointsHeadlessServiceLabel', golden('headless')),
    by('TestSyncServiceExternalNameType', golden('ports')),
    not('TestSyncEndpointsItemsEmptySelectorSelectsAll', EMPTY_SELECTOR),
    not('TestSyncEndpointsItemsEmptySelectorSelectsAllNotReady', EMPTY_SELECTOR),
    not('TestSyncEndpointsItemsEmptySelectorSelectsAllMixed', EMPTY_SELECTOR),
    by('TestSyncEndpointsItemsPreexisting', { [ENDPOINTS]: ['are written for any other difference'] }),
    by('TestSyncEndpointsItemsPreexistingIdentical', { [PRODUCED]: ['ports: they are left alone'] }),
    by('TestSyncEndpointsItemsPreexistingIdenticalUnsorted', {
      [ENDPOINTS]: ['are not written when only the order differs'],
    }),
    by('TestSyncEndpointsItems', golden('ports', 'publish-not-ready')),
    by('TestSyncEndpointsItemsWithLabels', golden('labels-and-annotations')),
    by('TestSyncEndpointsItemsPreexistingLabelsChange', golden('labels-and-annotations')),
    not('TestWaitsForAllInformersToBeSynced2', 'it is about the inside of kube-controller-manager'),
    by('TestSyncEndpointsHeadlessService', golden('headless')),
    by('TestSyncEndpointsItemsExcludeNotReadyPodsWithRestartPolicyNeverAndPhaseFailed', { [ENDPOINTS]: [READINESS] }),
    by('TestSyncEndpointsItemsExcludeNotReadyPodsWithRestartPolicyNeverAndPhaseSucceeded', {
      [ENDPOINTS]: [READINESS],
    }),
    by('TestSyncEndpointsItemsExcludeNotReadyPodsWithRestartPolicyOnFailureAndPhaseSucceeded', {
      [ENDPOINTS]: [READINESS],
    }),
    by('TestSyncEndpointsHeadlessWithoutPort', golden('headless')),
    by('TestPodToEndpointAddressForService', {
      ...golden('dual-stack'),
      [ENDPOINTS]: ['have addresses only of the first family, and omit Pods without one'],
    }),
    by('TestLastTriggerChangeTimeAnnotation', golden('trigger-times')),
    by('TestLastTriggerChangeTimeAnnotation_AnnotationOverridden', golden('trigger-times')),
    by('TestLastTriggerChangeTimeAnnotation_AnnotationCleared', golden('trigger-times')),
    by('TestSyncEndpointsServiceNotFound', { [CONTROLLER]: ['remove what they wrote for a Service that is gone'] }),
    by(
      'TestSyncServiceOverCapacity',
      {
        ...golden('over-capacity'),
        [ENDPOINTS]: ['the annotation is removed when they fit again; before, nothing is written'],
      },
      { differs: 'Endpoints that are truncated correctly are not written again' },
    ),
    by('TestTruncateEndpoints', {
      ...golden('over-capacity-in-subsets'),
      [ENDPOINTS]: ['ready ones come first', 'each subset keeps its share, in any order of the Pods'],
    }),
    by('TestEndpointPortFromServicePort', golden('ports')),
    by('TestSyncServiceAddresses', { ...golden('publish-not-ready'), [ENDPOINTS]: [READINESS] }),
    by('TestEndpointsDeletionEvents', { [CONTROLLER]: ['Endpoints that another program deleted are restored'] }),
    by('TestEndpointSubsetsEqualIgnoreResourceVersion', { [ENDPOINTS]: ['are written for any other difference'] }),
    by('TestSyncEndpointsAddDeletePorts', golden('ports')),
  ],
};
