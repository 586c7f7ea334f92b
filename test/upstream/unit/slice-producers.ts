/** The unit tests of kube-controller-manager's controllers of slices: what holds them. A test stands for all rows of its table. */
import type { UpstreamCase, UpstreamFile } from '../cases.ts';

const IN = 'test/cluster/producers';
const SEQUENCES = `${IN}/sequences.test.ts`;
const MIRROR = `${IN}/mirror.test.ts`;
const TOPOLOGY = `${IN}/topology.test.ts`;
const TIMES = `${IN}/trigger-times.test.ts`;
const MEMBERS = `${IN}/membership.test.ts`;
const HINTS = `${IN}/distribution.test.ts`;
const CONTROLLER = 'test/controller/controller.test.ts';
const EXPECTATIONS = 'test/controller/expectations.test.ts';
const DECODE = 'test/cluster/api/decode/producing.test.ts';

type Held = Readonly<Record<string, readonly string[]>>;

const by = (title: string, tests: Held, more: Partial<UpstreamCase> = {}): UpstreamCase => ({ title, tests, ...more });
const not = (title: string, why: string): UpstreamCase => ({ title, not: why });

/** What kube-controller-manager 1.36 wrote in these recorded cases. */
const golden = (...names: readonly string[]): Held => ({
  [`${IN}/golden-cases.test.ts`]: names.map((name) => `${name}: the same are written, step by step`),
});

const INSIDE = 'it is about the inside of kube-controller-manager';

export const SLICES_RECONCILER: UpstreamFile = {
  path: 'staging/src/k8s.io/endpointslice/reconciler_test.go',
  cases: [
    by('TestReconcileEmpty', { ...golden('ports'), [SEQUENCES]: ['use the empty slice of a Service without Pods'] }),
    by('TestReconcile1Pod', golden('dual-stack', 'labels-and-annotations', 'headless')),
    by('TestReconcile1EndpointSlice', { [SEQUENCES]: ['correct the labels of the empty slice'] }),
    not('TestPlaceHolderSliceCompare', INSIDE),
    by('TestReconcile1EndpointSlicePublishNotReadyAddresses', golden('publish-not-ready')),
    by('TestReconcileManyPods', golden('over-capacity')),
    by('TestReconcileEndpointSlicesSomePreexisting', {
      [SEQUENCES]: ['go into the one slice that has room for all', 'go into the fullest slice with room'],
    }),
    by('TestReconcileEndpointSlicesSomePreexistingWorseAllocation', {
      [SEQUENCES]: ['go into a new slice when none has room for all, so that one slice is written instead of two'],
    }),
    by('TestReconcileEndpointSlicesUpdating', {
      [SEQUENCES]: ['to another target port write each slice once'],
    }),
    by('TestReconcileEndpointSlicesServicesLabelsUpdating', {
      ...golden('labels-and-annotations'),
      [SEQUENCES]: ['write its labels to all slices, together with new Pods'],
    }),
    by('TestReconcileEndpointSlicesServicesReservedLabels', golden('labels-and-annotations')),
    by('TestReconcileEndpointSlicesRecycling', {
      [SEQUENCES]: ['to another target port never lose a Pod when slices are unevenly full'],
    }),
    by('TestReconcileEndpointSlicesUpdatePacking', {
      [SEQUENCES]: [
        'puts new Pods into the slices of old ones',
        'writes one slice for a new Pod and one for a removed Pod',
      ],
    }),
    not('TestReconcileEndpointSlicesReplaceDeprecated', 'the type of addresses "IP" was never in v1 of the API'),
    by('TestReconcileEndpointSlicesRecreation', {
      [SEQUENCES]: ['to a new Service of the same name use no slice of the earlier one'],
    }),
    by('TestReconcileEndpointSlicesNamedPorts', {
      ...golden('ports'),
      [SEQUENCES]: ['to another port name never lose a Pod when named targets differ, in any order of the Pods'],
    }),
    by('TestReconcileMaxEndpointsPerSlice', {
      [SEQUENCES]: ['moves no existing endpoint when it is lowered, and applies to new ones'],
    }),
    ...[
      '',
      '_EndpointsAddedPerSync_CollectAndCompare',
      '_EndpointsRemovedPerSync_CollectAndCompare',
      '_GaugeUpdates',
    ].map((of) =>
      not(`TestReconcileEndpointSlicesMetrics${of}`, 'the numbers of these metrics are not compared with a table'),
    ),
    by('TestReconcilerFinalizeSvcDeletionTimestamp', {
      [SEQUENCES]: ['to a terminating Service create no slices, and update and delete those it has'],
    }),
    by('TestReconcilerPodMissingNode', {
      ...golden('publish-not-ready'),
      [SEQUENCES]: [
        'removes its Pods from the slices, and reports them until it exists again',
        'keeps the Pods of a Service that publishes addresses that are not ready',
        'leaves one empty slice when it had all Pods',
      ],
    }),
    by('TestReconcileTopology', {
      ...golden('topology-mode'),
      [TOPOLOGY]: ['have their own zones when these have their shares', 'when there are fewer endpoints than zones'],
    }),
    by(
      'TestReconcile_TrafficDistribution',
      { ...golden('traffic-distribution', 'topology-mode'), [HINTS]: ['has no effect with topology-mode Auto'] },
      { not: 'PreferSameZone without its gate: the gate is always on since 1.35' },
    ),
    by('TestReconcileHeadlessServiceNoPorts', {
      ...golden('headless'),
      [SEQUENCES]: ['without ports fills its empty slice with as many Pods as fit'],
    }),
  ],
};

export const SLICES_UTILS: UpstreamFile = {
  path: 'staging/src/k8s.io/endpointslice/utils_test.go',
  cases: [
    by('TestNewEndpointSlice', golden('labels-and-annotations', 'headless')),
    by('TestPodToEndpoint', golden('publish-not-ready', 'headless', 'dual-stack')),
    not('TestServiceControllerKey', INSIDE),
    by('TestGetEndpointPorts', {
      ...golden('ports'),
      [DECODE]: ['are the named ones of its containers, then of the init containers that go on (KEP-753)'],
    }),
    by(
      'TestSetEndpointSliceLabels',
      { ...golden('labels-and-annotations', 'headless'), [`${IN}/labels.test.ts`]: ['labels of a slice'] },
      { differs: 'all labels are corrected, the headless one included' },
    ),
    by('TestSupportedServiceAddressType', {
      [DECODE]: [
        'are those of ipFamilies',
        'are else those of its cluster IPs',
        'are else that of its cluster IP',
        'are else both, of a headless one',
      ],
    }),
    by('Test_hintsEnabled', golden('topology-mode')),
    by('TestFindPort', golden('ports')),
  ],
};

export const TOPOLOGY_CACHE: UpstreamFile = {
  path: 'staging/src/k8s.io/endpointslice/topologycache/topologycache_test.go',
  cases: [
    by('TestAddHints', {
      [TOPOLOGY]: [
        'have their own zones when these have their shares',
        'when there are fewer endpoints than zones',
        'have no hints while they are not ready, and do not count',
      ],
    }),
    by('TestSetNodes', {
      [TOPOLOGY]: [
        'are those of their CPUs',
        'ignore control plane nodes and nodes that are not ready, also incomplete ones',
        'are unknown when a node lacks its zone or CPUs, or all nodes are in one zone',
      ],
    }),
    not('TestTopologyCacheRace', 'it is about threads of Go'),
  ],
};

const ALLOTMENTS = 'it calls inner functions with numbers; the hints that follow are tested';

export const TOPOLOGY_UTILS: UpstreamFile = {
  path: 'staging/src/k8s.io/endpointslice/topologycache/utils_test.go',
  cases: [
    by(
      'Test_redistributeHints',
      { [TOPOLOGY]: ['go to zones with too few from zones with too many'] },
      { not: ALLOTMENTS },
    ),
    by(
      'Test_getGivingAndReceivingZones',
      { [TOPOLOGY]: ['keep their zones when none lacks half an endpoint'] },
      { not: ALLOTMENTS },
    ),
    by('Test_getHintsByZone', { [TOPOLOGY]: ['keep the hints of unchanged slices'] }, { not: ALLOTMENTS }),
  ],
};

export const TOPOLOGY_SLICES: UpstreamFile = {
  path: 'staging/src/k8s.io/endpointslice/topologycache/sliceinfo_test.go',
  cases: [
    by('Test_getTotalReadyEndpoints', { [TOPOLOGY]: ['have no hints while they are not ready, and do not count'] }),
  ],
};

export const TRIGGER_TIMES: UpstreamFile = {
  path: 'staging/src/k8s.io/endpointslice/util/trigger_time_tracker_test.go',
  cases: [
    by('TestNewServiceNoPods', {
      [TIMES]: ['is the creation of the Service at its first call, regardless of its Pods'],
    }),
    by('TestNewServiceExistingPods', {
      [TIMES]: ['is the creation of the Service at its first call, regardless of its Pods'],
    }),
    by('TestPodsAdded', {
      ...golden('trigger-times'),
      [TIMES]: ['is the earliest change of a Pod since the last call'],
    }),
    by('TestPodsUpdated', { [TIMES]: ['is the earliest change of a Pod since the last call'] }),
    by('TestPodsUpdatedNoOp', { [TIMES]: ['is unknown when no Pod has a changed time, as after a deletion'] }),
    by('TestPodDeletedThenAdded', { [TIMES]: ['is returned again when the Pod comes back'] }),
    by('TestServiceDeletedThenAdded', {
      [TIMES]: ['is the creation of a recreated Service, with or without a notice of the deletion'],
    }),
    by('TestServiceUpdatedNoPodChange', golden('trigger-times')),
  ],
};

export const CONTROLLER_UTILS: UpstreamFile = {
  path: 'staging/src/k8s.io/endpointslice/util/controller_utils_test.go',
  cases: [
    by('TestDetermineNeededServiceUpdates', {
      [MEMBERS]: [
        'concerns those that it joins and leaves when only labels change',
        'concerns all of both when labels and other fields change',
      ],
    }),
    by('TestShouldPodBeInEndpoints', golden('publish-not-ready')),
    by('TestShouldSetHostname', golden('headless')),
    by('TestGetPodServicesToUpdate', {
      [MEMBERS]: ['concerns all of its Services when it is created, deleted or changed'],
    }),
    by('Test_podChanged', {
      [MEMBERS]: [
        'concerns all of its Services when it is created, deleted or changed',
        'concerns those that it joins and leaves when only labels change',
        'without a difference concerns no Service',
      ],
    }),
    by('TestEndpointsEqualBeyondHash', {
      [SEQUENCES]: ['distinguishes a recreated Pod from the earlier one with its name and address'],
      [HINTS]: ['follows a Node into another zone'],
    }),
    not('TestDeepHashObject', INSIDE),
    not('TestDeepObjectPointer', INSIDE),
    by('TestNewPortMapKey_NilVsEmptySlice', {
      [SEQUENCES]: ['without Pods and ports keeps one empty slice when Pods come and go'],
    }),
  ],
};

export const SLICES_CONTROLLER: UpstreamFile = {
  path: 'pkg/controller/endpointslice/endpointslice_controller_test.go',
  cases: [
    by('TestSyncServiceNoSelector', golden('selector-comes-and-goes')),
    by('TestServiceExternalNameTypeSync', golden('ports')),
    by('TestSyncServicePendingDeletion', {
      [SEQUENCES]: ['to a terminating Service create no slices, and update and delete those it has'],
    }),
    by('TestSyncServiceWithSelector', {
      [CONTROLLER]: ['write slices and Endpoints of a Service, and what changes of them'],
    }),
    by('TestSyncServiceMissing', { [CONTROLLER]: ['remove what they wrote for a Service that is gone'] }),
    by('TestSyncServicePodSelection', {
      [MEMBERS]: ['have all labels of its selector, and are in its namespace'],
    }),
    by('TestSyncServiceEndpointSlicePendingDeletion', {
      [EXPECTATIONS]: ['as long as it has a slice that is being deleted, and not when that was not deleted after all'],
    }),
    by('TestSyncServiceEndpointSliceLabelSelection', {
      [CONTROLLER]: ['slices of other managers, and of none, are left alone'],
    }),
    by('TestOnEndpointSliceUpdate', {
      [EXPECTATIONS]: ['when somebody took it from this controller, and when it comes back'],
    }),
    by('TestSyncService', golden('dual-stack', 'publish-not-ready')),
    ...['TestPodAddsBatching', 'TestPodUpdatesBatching', 'TestPodDeleteBatching'].map((title) =>
      by(
        title,
        { [CONTROLLER]: ['changes of Pods within the batch period are one write'] },
        { not: 'one batch is tried, of new Pods; not several of them' },
      ),
    ),
    by('TestSyncServiceStaleInformer', {
      [CONTROLLER]: ['nothing is done on the strength of a cache that is behind'],
    }),
    by('Test_checkNodeTopologyDistribution', {
      [TOPOLOGY]: [
        'concerns no Service with hints while the shares are nearly the same',
        'concerns Services with hints for a removed zone',
      ],
    }),
    by('TestUpdateNode', { [TOPOLOGY]: ['concerns Services without hints that may have some now'] }),
    by('Test_dropEndpointSlicesPendingDeletion', {
      [EXPECTATIONS]: ['as long as it has a slice that is being deleted, and not when that was not deleted after all'],
    }),
  ],
};

export const MIRRORING_CONTROLLER: UpstreamFile = {
  path: 'pkg/controller/endpointslicemirroring/endpointslicemirroring_controller_test.go',
  cases: [
    by('TestSyncEndpoints', {
      ...golden('mirrored', 'mirrored-too-many', 'selector-comes-and-goes'),
      [MIRROR]: ['lose their slices when the Service gets a selector, or either is deleted'],
    }),
    by('TestShouldMirror', {
      ...golden('mirrored'),
      [MIRROR]: ['have the label skip-mirror, or are a lock of leader election'],
    }),
    by('TestEndpointSlicesMirroredForService', { [EXPECTATIONS]: ['not when it is another controller’s'] }),
  ],
};

export const MIRRORING_UTILS: UpstreamFile = {
  path: 'pkg/controller/endpointslicemirroring/utils_test.go',
  cases: [
    by('TestNewEndpointSlice', {
      ...golden('mirrored'),
      [MIRROR]: ['have the owner, the labels and the annotations of the Endpoints'],
    }),
    by('TestAddressToEndpoint', golden('mirrored')),
  ],
};
