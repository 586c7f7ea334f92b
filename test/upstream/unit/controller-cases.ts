/** Unit tests of kube-controller-manager's controllers of slices. */
import { upstreamFile } from '../cases.ts';

export const controllerCases = [
  upstreamFile('pkg/api/v1/endpoints/util_test.go', {
    TestPackSubsets: { by: 'test/upstream/unit/subsets.test.ts', rows: 32 },
  }),
  upstreamFile('pkg/controller/endpoint/endpoints_controller_test.go', {
    TestSyncEndpointsItemsPreserveNoSelector: 'test/cluster/producers/golden-cases.test.ts',
    TestSyncEndpointsExistingNilSubsets: 'test/controller/controller.test.ts',
    TestSyncEndpointsExistingEmptySubsets: 'test/controller/controller.test.ts',
    TestSyncEndpointsNewNoSubsets: 'test/cluster/producers/golden-cases.test.ts',
    TestCheckLeftoverEndpoints: 'test/controller/controller.test.ts',
    TestSyncEndpointsProtocolTCP: 'test/cluster/producers/golden-cases.test.ts',
    TestSyncEndpointsProtocolUDP: 'test/cluster/producers/golden-cases.test.ts',
    TestSyncEndpointsProtocolSCTP: 'test/cluster/producers/endpoints-object.test.ts',
    TestSyncEndpointsProtocolMultiProtocolSamePort: 'test/cluster/producers/endpoints-object.test.ts',
    TestSyncEndpointsWithPodResourceVersionUpdateOnly: 'test/cluster/producers/membership.test.ts',
    TestPodUpdatesBatching: {
      by: 'test/controller/controller.test.ts',
      not: 'one batch is tried, of new Pods; not several of them',
    },
    TestPodAddsBatching: {
      by: 'test/controller/controller.test.ts',
      not: 'one batch is tried, of new Pods; not several of them',
    },
    TestPodDeleteBatching: {
      by: 'test/controller/controller.test.ts',
      not: 'one batch is tried, of new Pods; not several of them',
    },
    TestMultipleServiceChanges: { by: 'test/controller/controller.test.ts', not: 'it shows this with slices alone' },
    TestMultiplePodChanges: { by: 'test/controller/controller.test.ts', not: 'it shows this with slices alone' },
    TestPodToEndpointAddressForServiceEmptyIPFamilies: { not: 'the API server fills in the families of every Service' },
    TestSyncEndpointsHeadlessServiceLabel: 'test/cluster/producers/golden-cases.test.ts',
    TestSyncServiceExternalNameType: 'test/cluster/producers/golden-cases.test.ts',
    TestSyncEndpointsItemsEmptySelectorSelectsAll: {
      not: 'the API server leaves an empty selector out, and slicewire takes one as none',
    },
    TestSyncEndpointsItemsEmptySelectorSelectsAllNotReady: {
      not: 'the API server leaves an empty selector out, and slicewire takes one as none',
    },
    TestSyncEndpointsItemsEmptySelectorSelectsAllMixed: {
      not: 'the API server leaves an empty selector out, and slicewire takes one as none',
    },
    TestSyncEndpointsItemsPreexisting: 'test/cluster/producers/endpoints-object.test.ts',
    TestSyncEndpointsItemsPreexistingIdentical: 'test/cluster/producers/golden-cases.test.ts',
    TestSyncEndpointsItemsPreexistingIdenticalUnsorted: 'test/cluster/producers/endpoints-object.test.ts',
    TestSyncEndpointsItems: 'test/cluster/producers/golden-cases.test.ts',
    TestSyncEndpointsItemsWithLabels: 'test/cluster/producers/golden-cases.test.ts',
    TestSyncEndpointsItemsPreexistingLabelsChange: 'test/cluster/producers/golden-cases.test.ts',
    TestWaitsForAllInformersToBeSynced2: { not: 'it is about the inside of kube-controller-manager' },
    TestSyncEndpointsHeadlessService: 'test/cluster/producers/golden-cases.test.ts',
    TestSyncEndpointsItemsExcludeNotReadyPodsWithRestartPolicyNeverAndPhaseFailed:
      'test/cluster/producers/endpoints-object.test.ts',
    TestSyncEndpointsItemsExcludeNotReadyPodsWithRestartPolicyNeverAndPhaseSucceeded:
      'test/cluster/producers/endpoints-object.test.ts',
    TestSyncEndpointsItemsExcludeNotReadyPodsWithRestartPolicyOnFailureAndPhaseSucceeded:
      'test/cluster/producers/endpoints-object.test.ts',
    TestSyncEndpointsHeadlessWithoutPort: 'test/cluster/producers/golden-cases.test.ts',
    TestPodToEndpointAddressForService: [
      'test/cluster/producers/golden-cases.test.ts',
      'test/cluster/producers/endpoints-object.test.ts',
    ],
    TestLastTriggerChangeTimeAnnotation: 'test/cluster/producers/golden-cases.test.ts',
    TestLastTriggerChangeTimeAnnotation_AnnotationOverridden: 'test/cluster/producers/golden-cases.test.ts',
    TestLastTriggerChangeTimeAnnotation_AnnotationCleared: 'test/cluster/producers/golden-cases.test.ts',
    TestSyncEndpointsServiceNotFound: 'test/controller/controller.test.ts',
    TestSyncServiceOverCapacity: {
      by: ['test/cluster/producers/golden-cases.test.ts', 'test/cluster/producers/endpoints-object.test.ts'],
      differs: 'Endpoints that are truncated correctly are not written again',
    },
    TestTruncateEndpoints: [
      'test/cluster/producers/golden-cases.test.ts',
      'test/cluster/producers/endpoints-object.test.ts',
    ],
    TestEndpointPortFromServicePort: 'test/cluster/producers/golden-cases.test.ts',
    TestSyncServiceAddresses: [
      'test/cluster/producers/golden-cases.test.ts',
      'test/cluster/producers/endpoints-object.test.ts',
    ],
    TestEndpointsDeletionEvents: 'test/controller/controller.test.ts',
    TestEndpointSubsetsEqualIgnoreResourceVersion: 'test/cluster/producers/endpoints-object.test.ts',
    TestSyncEndpointsAddDeletePorts: 'test/cluster/producers/golden-cases.test.ts',
  }),
  upstreamFile('pkg/controller/endpointslice/endpointslice_controller_test.go', {
    TestSyncServiceNoSelector: 'test/cluster/producers/golden-cases.test.ts',
    TestServiceExternalNameTypeSync: 'test/cluster/producers/golden-cases.test.ts',
    TestSyncServicePendingDeletion: 'test/cluster/producers/sequences.test.ts',
    TestSyncServiceWithSelector: 'test/controller/controller.test.ts',
    TestSyncServiceMissing: 'test/controller/controller.test.ts',
    TestSyncServicePodSelection: 'test/cluster/producers/membership.test.ts',
    TestSyncServiceEndpointSlicePendingDeletion: 'test/controller/expectations.test.ts',
    TestSyncServiceEndpointSliceLabelSelection: 'test/controller/controller.test.ts',
    TestOnEndpointSliceUpdate: 'test/controller/expectations.test.ts',
    TestSyncService: 'test/cluster/producers/golden-cases.test.ts',
    TestPodAddsBatching: {
      by: 'test/controller/controller.test.ts',
      not: 'one batch is tried, of new Pods; not several of them',
    },
    TestPodUpdatesBatching: {
      by: 'test/controller/controller.test.ts',
      not: 'one batch is tried, of new Pods; not several of them',
    },
    TestPodDeleteBatching: {
      by: 'test/controller/controller.test.ts',
      not: 'one batch is tried, of new Pods; not several of them',
    },
    TestSyncServiceStaleInformer: 'test/controller/controller.test.ts',
    Test_checkNodeTopologyDistribution: 'test/cluster/producers/topology.test.ts',
    TestUpdateNode: 'test/cluster/producers/topology.test.ts',
    Test_dropEndpointSlicesPendingDeletion: 'test/controller/expectations.test.ts',
  }),
  upstreamFile('pkg/controller/endpointslicemirroring/endpointslicemirroring_controller_test.go', {
    TestSyncEndpoints: ['test/cluster/producers/golden-cases.test.ts', 'test/cluster/producers/mirror.test.ts'],
    TestShouldMirror: ['test/cluster/producers/golden-cases.test.ts', 'test/cluster/producers/mirror.test.ts'],
    TestEndpointSlicesMirroredForService: 'test/controller/expectations.test.ts',
  }),
  upstreamFile('pkg/controller/endpointslicemirroring/reconciler_test.go', {
    TestReconcile: { by: 'test/upstream/unit/mirror.test.ts', rows: 28 },
  }),
  upstreamFile('pkg/controller/endpointslicemirroring/utils_test.go', {
    TestNewEndpointSlice: ['test/cluster/producers/golden-cases.test.ts', 'test/cluster/producers/mirror.test.ts'],
    TestAddressToEndpoint: 'test/cluster/producers/golden-cases.test.ts',
  }),
  upstreamFile('staging/src/k8s.io/endpointslice/reconciler_test.go', {
    TestReconcileEmpty: ['test/cluster/producers/golden-cases.test.ts', 'test/cluster/producers/sequences.test.ts'],
    TestReconcile1Pod: 'test/cluster/producers/golden-cases.test.ts',
    TestReconcile1EndpointSlice: 'test/cluster/producers/sequences.test.ts',
    TestPlaceHolderSliceCompare: { not: 'it is about the inside of kube-controller-manager' },
    TestReconcile1EndpointSlicePublishNotReadyAddresses: 'test/cluster/producers/golden-cases.test.ts',
    TestReconcileManyPods: 'test/cluster/producers/golden-cases.test.ts',
    TestReconcileEndpointSlicesSomePreexisting: 'test/cluster/producers/sequences.test.ts',
    TestReconcileEndpointSlicesSomePreexistingWorseAllocation: 'test/cluster/producers/sequences.test.ts',
    TestReconcileEndpointSlicesUpdating: 'test/cluster/producers/sequences.test.ts',
    TestReconcileEndpointSlicesServicesLabelsUpdating: [
      'test/cluster/producers/golden-cases.test.ts',
      'test/cluster/producers/sequences.test.ts',
    ],
    TestReconcileEndpointSlicesServicesReservedLabels: 'test/cluster/producers/golden-cases.test.ts',
    TestReconcileEndpointSlicesRecycling: 'test/cluster/producers/sequences.test.ts',
    TestReconcileEndpointSlicesUpdatePacking: 'test/cluster/producers/sequences.test.ts',
    TestReconcileEndpointSlicesReplaceDeprecated: { not: 'the type of addresses "IP" was never in v1 of the API' },
    TestReconcileEndpointSlicesRecreation: 'test/cluster/producers/sequences.test.ts',
    TestReconcileEndpointSlicesNamedPorts: [
      'test/cluster/producers/golden-cases.test.ts',
      'test/cluster/producers/sequences.test.ts',
    ],
    TestReconcileMaxEndpointsPerSlice: 'test/cluster/producers/sequences.test.ts',
    TestReconcileEndpointSlicesMetrics: { not: 'the numbers of these metrics are not compared with a table' },
    TestReconcileEndpointSlicesMetrics_EndpointsAddedPerSync_CollectAndCompare: {
      not: 'the numbers of these metrics are not compared with a table',
    },
    TestReconcileEndpointSlicesMetrics_EndpointsRemovedPerSync_CollectAndCompare: {
      not: 'the numbers of these metrics are not compared with a table',
    },
    TestReconcileEndpointSlicesMetrics_GaugeUpdates: {
      not: 'the numbers of these metrics are not compared with a table',
    },
    TestReconcilerFinalizeSvcDeletionTimestamp: 'test/cluster/producers/sequences.test.ts',
    TestReconcilerPodMissingNode: [
      'test/cluster/producers/golden-cases.test.ts',
      'test/cluster/producers/sequences.test.ts',
    ],
    TestReconcileTopology: ['test/cluster/producers/golden-cases.test.ts', 'test/cluster/producers/topology.test.ts'],
    TestReconcile_TrafficDistribution: {
      by: ['test/cluster/producers/golden-cases.test.ts', 'test/cluster/producers/distribution.test.ts'],
      not: 'PreferSameZone without its gate: the gate is always on since 1.35',
    },
    TestReconcileHeadlessServiceNoPorts: [
      'test/cluster/producers/golden-cases.test.ts',
      'test/cluster/producers/sequences.test.ts',
    ],
  }),
  upstreamFile('staging/src/k8s.io/endpointslice/topologycache/sliceinfo_test.go', {
    Test_getTotalReadyEndpoints: 'test/cluster/producers/topology.test.ts',
  }),
  upstreamFile('staging/src/k8s.io/endpointslice/topologycache/topologycache_test.go', {
    TestAddHints: 'test/cluster/producers/topology.test.ts',
    TestSetNodes: 'test/cluster/producers/topology.test.ts',
    TestTopologyCacheRace: { not: 'it is about threads of Go' },
  }),
  upstreamFile('staging/src/k8s.io/endpointslice/topologycache/utils_test.go', {
    Test_redistributeHints: {
      by: 'test/cluster/producers/topology.test.ts',
      not: 'it calls inner functions with numbers; the hints that follow are tested',
    },
    Test_getGivingAndReceivingZones: {
      by: 'test/cluster/producers/topology.test.ts',
      not: 'it calls inner functions with numbers; the hints that follow are tested',
    },
    Test_getHintsByZone: {
      by: 'test/cluster/producers/topology.test.ts',
      not: 'it calls inner functions with numbers; the hints that follow are tested',
    },
  }),
  upstreamFile('staging/src/k8s.io/endpointslice/trafficdist/trafficdist_test.go', {
    TestReconcileHints: { by: 'test/upstream/unit/traffic-distribution.test.ts', rows: 9 },
    TestReconcileHints_doesNotMutateUnchangedSlices: 'test/upstream/unit/traffic-distribution.test.ts',
  }),
  upstreamFile('staging/src/k8s.io/endpointslice/util/controller_utils_test.go', {
    TestDetermineNeededServiceUpdates: 'test/cluster/producers/membership.test.ts',
    TestShouldPodBeInEndpoints: 'test/cluster/producers/golden-cases.test.ts',
    TestShouldSetHostname: 'test/cluster/producers/golden-cases.test.ts',
    TestGetPodServicesToUpdate: 'test/cluster/producers/membership.test.ts',
    Test_podChanged: 'test/cluster/producers/membership.test.ts',
    TestEndpointsEqualBeyondHash: [
      'test/cluster/producers/sequences.test.ts',
      'test/cluster/producers/distribution.test.ts',
    ],
    TestDeepHashObject: { not: 'it is about the inside of kube-controller-manager' },
    TestDeepObjectPointer: { not: 'it is about the inside of kube-controller-manager' },
    TestNewPortMapKey_NilVsEmptySlice: 'test/cluster/producers/sequences.test.ts',
  }),
  upstreamFile('staging/src/k8s.io/endpointslice/util/trigger_time_tracker_test.go', {
    TestNewServiceNoPods: 'test/cluster/producers/trigger-times.test.ts',
    TestNewServiceExistingPods: 'test/cluster/producers/trigger-times.test.ts',
    TestPodsAdded: ['test/cluster/producers/golden-cases.test.ts', 'test/cluster/producers/trigger-times.test.ts'],
    TestPodsUpdated: 'test/cluster/producers/trigger-times.test.ts',
    TestPodsUpdatedNoOp: 'test/cluster/producers/trigger-times.test.ts',
    TestPodDeletedThenAdded: 'test/cluster/producers/trigger-times.test.ts',
    TestServiceDeletedThenAdded: 'test/cluster/producers/trigger-times.test.ts',
    TestServiceUpdatedNoPodChange: 'test/cluster/producers/golden-cases.test.ts',
  }),
  upstreamFile('staging/src/k8s.io/endpointslice/utils_test.go', {
    TestNewEndpointSlice: 'test/cluster/producers/golden-cases.test.ts',
    TestPodToEndpoint: 'test/cluster/producers/golden-cases.test.ts',
    TestServiceControllerKey: { not: 'it is about the inside of kube-controller-manager' },
    TestGetEndpointPorts: ['test/cluster/producers/golden-cases.test.ts', 'test/cluster/api/decode/producing.test.ts'],
    TestSetEndpointSliceLabels: {
      by: ['test/cluster/producers/golden-cases.test.ts', 'test/cluster/producers/labels.test.ts'],
      differs: 'all labels are corrected, the headless one included',
    },
    TestSupportedServiceAddressType: 'test/cluster/api/decode/producing.test.ts',
    Test_hintsEnabled: 'test/cluster/producers/golden-cases.test.ts',
    TestFindPort: 'test/cluster/producers/golden-cases.test.ts',
  }),
];
