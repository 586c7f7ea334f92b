/**
 * `--feature-gates` of kube-proxy, which accepts the gates of all of Kubernetes, and exits on an unknown name
 * (k8s.io/component-base/featuregate, SetFromMap). slicewire does the same, so that command lines and files work unchanged.
 */
import { type FlagReader, parseBool } from './readers.ts';

/** Serve external IPs of Services; true by default, as in 1.36 (KEP-5707, against CVE-2020-8554). */
export const EXTERNAL_IPS_GATE = 'AllowServiceExternalIPs';

/** With false, nftables and IPVS mode serve no node ports on loopback (docs/semantics.md 6.17). kube-proxy serves them only with true (KEP-6032). */
export const LOCALHOST_GATE = 'KubeProxyNFTablesLocalhostNodePorts';

/**
 * Lists as streams (KEP-3157): client-go's gate, true by default in kube-proxy from 1.35 on. Here it is false by default, because a stream
 * costs the agent more memory than pages, and the server as much (docs/design-notes.md).
 */
export const STREAMS_GATE = 'WatchListClient';

export type FeatureGates = Readonly<Record<string, boolean>>;

/**
 * The gates of kube-proxy 1.30 to 1.37: pkg/features/kube_features.go of 1.30,
 * test/featuregates_linter/test_data/unversioned_feature_list.yaml of 1.31,
 * test/compatibility_lifecycle/reference/versioned_feature_list.yaml from 1.33 on (all of kubernetes/kubernetes), and the
 * options of --feature-gates in the command line reference of 1.35 and 1.36 (kubernetes.io/docs/reference).
 */
const KNOWN: ReadonlySet<string> = new Set(
  `
  APIListChunking APIPriorityAndFairness APIResponseCompression APIServerIdentity APIServerTracing
  APIServerWebhookAuthenticationToken APIServingWithRoutine AdmissionWebhookMatchConditions
  AggregatedDiscoveryEndpoint AggregatedDiscoveryRemoveBetaType AllAlpha AllBeta AllowDNSOnlyNodeCSR
  AllowInsecureKubeletCertificateSigningRequests AllowOverwriteTerminationGracePeriodSeconds
  AllowParsingUserUIDFromCertAuth AllowServiceExternalIPs AllowServiceLBStatusOnNonLB
  AllowUnsafeMalformedObjectDeletion AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AppArmor AppArmorFields
  AtomicFIFO AtomicWriteVolumeUserFields AuthorizeNodeWithSelectors AuthorizePodWebsocketUpgradeCreatePermission
  AuthorizeWithSelectors BtreeWatchCache CBORServingAndStorage CPUCFSQuotaPeriod CPUManager
  CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions CPUManagerPolicyOptions CRDObservedGenerationTracking
  CRDValidationRatcheting CRIListStreaming CSIMigrationPortworx CSIMigrationRBD CSINodeExpandSecret
  CSIServiceAccountTokenSecrets CSIVolumeHealth ChangeContainerStatusOnKubeletRestart
  ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowCBOR ClientsAllowTLSCacheGC
  ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook
  CloudDualStackNodeIPs ClusterTrustBundle ClusterTrustBundleProjection ComponentFlagz ComponentSLIs ComponentStatusz
  CompositePodGroup ConcurrentWatchObjectDecode ConsistentHTTPGetHandlers ConsistentListFromCache
  ConsistentListFromCacheSkipTimeoutFallback ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules
  ContainerStopSignals ContextualLogging ControllerManagerReleaseLeaderElectionLockOnExit CoordinatedLeaderElection
  CronJobsScheduledAnnotation CrossNamespaceVolumeDataSource CustomCPUCFSQuotaPeriod CustomResourceFieldSelectors
  CustomResourceValidationExpressions DRAAdminAccess DRAConsumableCapacity DRAControlPlaneController
  DRADerivedAttributes DRADeviceBindingConditions DRADeviceCompatibilityGroups DRADeviceTaintRules DRADeviceTaints
  DRAExtendedResource DRAFractionalCapacityRange DRAListTypeAttributes DRANodeAllocatableResources
  DRAOptionalNodeOperations DRAPartitionableDevices DRAPartitionableDevicesType DRAPrioritizedList
  DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus
  DRASchedulerFilterTimeout DRAWorkloadResourceClaims DeclarativeValidation DeclarativeValidationBeta
  DeclarativeValidationTakeover DefaultHostNetworkHostPortsInPodTemplates DefaultPodSysctls
  DeploymentPodReplacementPolicy DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency
  DevicePluginCDIDevices DisableAllocatorDualWrite DisableCPUQuotaWithExclusiveCPUs DisableCloudProviders
  DisableKubeletCloudCredentialProviders DisableNodeKubeProxyVersion DynamicResourceAllocation
  EfficientWatchResumption ElasticIndexedJob EmptyDirVolumeMode EnvFiles EtcdRangeStream EventedPLEG
  EvictionRequestAPI ExcludeAdmissionWebhookVirtualResources ExecProbeTimeout ExtendWebSocketsToKubelet
  ExternalServiceAccountTokenSigner GRPCContainerProbeTLS GangScheduling GenericWorkload GitRepoVolumeDriver
  GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority H2CContainerProbe HPAConfigurableTolerance
  HPAContainerMetrics HPAGeneration HPAOptimizedSelectorStore HPAScaleToZero HonorPVReclaimPolicy HostnameOverride
  HugepageAwareEviction ImageMaximumGCAge ImageVolume ImageVolumeWithDigest InOrderInformers
  InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScaling
  InPlacePodVerticalScalingAllocatedStatus InPlacePodVerticalScalingExclusiveCPUs
  InPlacePodVerticalScalingExclusiveMemory InPlacePodVerticalScalingInitContainers
  InPlacePodVerticalScalingMemoryBackedVolumes InPlacePodVerticalScalingSchedulerPreemption InTreePluginAWSUnregister
  InTreePluginAzureDiskUnregister InTreePluginAzureFileUnregister InTreePluginGCEUnregister
  InTreePluginOpenStackUnregister InTreePluginPortworxUnregister InTreePluginRBDUnregister
  InTreePluginvSphereUnregister InformerResourceVersion InterPodAffinityHostnameFastPath JobBackoffLimitPerIndex
  JobManagedBy JobPodFailurePolicy JobPodReplacementPolicy JobReadyPods JobSuccessPolicy KMSv1 KMSv2 KMSv2KDF
  KubeProxyDrainingTerminatingNodes KubeProxyIPVS KubeProxyNFTablesLocalhostNodePorts KubeletAllocatedPodsEndpoint
  KubeletCgroupDriverFromCRI KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletFineGrainedAuthz
  KubeletInUserNamespace KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet
  KubeletPodResourcesListUseActivePods KubeletRegistrationGetOnExistsOnly KubeletSeparateDiskGC
  KubeletServiceAccountTokenForCredentialProviders KubeletTracing LegacyServiceAccountTokenCleanUp
  LegacySidecarContainers ListFromCacheSnapshot LoadBalancerIPMode LocalStorageCapacityIsolationFSQuotaMonitoring
  LogarithmicScaleDown LoggingAlphaOptions LoggingBetaOptions ManifestBasedAdmissionControlConfig
  MatchLabelKeysInPodAffinity MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
  MaxUnavailableStatefulSet MemoryManager MemoryQoS MinDomainsInPodTopologySpread MultiCIDRServiceAllocator
  MutableCSINodeAllocatableCount MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs
  MutableSchedulingDirectivesForSuspendedJobs MutatingAdmissionPolicy NFTablesNetlink NFTablesProxyMode
  NativeHistograms NewVolumeManagerReconstruction NodeControllerLeaseCircuitBreaker NodeDeclaredFeatures
  NodeInclusionPolicyInPodTopologySpread NodeLifecycleConditions NodeLogQuery NodeOutOfServiceVolumeDetach NodeSwap
  NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching OrderedNamespaceDeletion
  PDBUnhealthyPodEvictionPolicy PLEGOnDemandRelist PersistentVolumeClaimUnusedSinceTime
  PersistentVolumeLastPhaseTransitionTime PodAndContainerStatsFromCRI PodCertificateRequest PodDeletionCost
  PodDisruptionConditions PodGroupPreemptionPolicy PodHostIPs PodIndexLabel PodLevelResourceManagers PodLevelResources
  PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass PodLifecycleSleepAction
  PodLifecycleSleepActionAllowZero PodLogsQuerySplitStreams PodObservedGenerationTracking
  PodReadyToStartContainersCondition PodSchedulingReadiness PodTopologyLabelsAdmission PodsAPI PortForwardWebsockets
  PreferSameTrafficDistribution PreventStaticPodAPIReferences ProcMountType QOSReserved ReadWriteOncePod
  RecoverVolumeExpansionFailure RecursiveReadOnlyMounts ReduceDefaultCrashLoopBackOffDecay RelaxedDNSSearchValidation
  RelaxedEnvironmentVariableValidation RelaxedServiceNameValidation ReloadKubeletClientCAFile
  ReloadKubeletServerCertificateFile RemainingItemCount RemoteRequestHeaderUID ResilientWatchCacheInitialization
  ResourceHealthStatus ResourceHealthStatusMessage RestartAllContainersOnContainerExits RetryGenerateName
  RotateKubeletServerCertificate RuntimeClassInImageCriAPI RuntimeClassInImageCriApi SELinuxChangePolicy SELinuxMount
  SELinuxMountReadWriteOncePod SchedulerAsyncAPICalls SchedulerAsyncPreemption SchedulerPopFromBackoffQ
  SchedulerPreQueueingHints SchedulerQueueingHints SeparateCacheWatchRPC SeparateTaintEvictionController
  ServerSideApply ServerSideFieldValidation ServiceAccountNodeAudienceRestriction ServiceAccountTokenJTI
  ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo
  ServiceCIDRStatusFieldWiping ServiceNodePortStaticSubrange ServiceTrafficDistribution ShardedListAndWatch
  SidecarContainers SizeBasedListCostEstimate SizeMemoryBackedVolumes SkipReadOnlyValidationGCE
  StableLoadBalancerNodeSet StaleControllerConsistencyDaemonSet StaleControllerConsistencyHPA
  StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
  StatefulSetAutoDeletePVC StatefulSetRecreateStrategy StatefulSetSemanticRevisionComparison StatefulSetStartOrdinal
  StorageCapacityScoring StorageNamespaceIndex StorageVersionAPI StorageVersionHash StorageVersionMigrator
  StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StrictCostEnforcementForVAP
  StrictCostEnforcementForWebhooks StrictIPCIDRValidation StructuredAuthenticationConfiguration
  StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
  StructuredAuthorizationConfiguration SupplementalGroupsPolicy SystemdWatchdog TaintTolerationComparisonOperators
  TokenRequestServiceAccountUIDValidation TopologyAwareHints TopologyAwareWorkloadScheduling
  TopologyManagerPolicyAlphaOptions TopologyManagerPolicyBetaOptions TopologyManagerPolicyOptions
  TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy
  UnlockWhileProcessingFIFO UserNamespacesHostNetworkSupport UserNamespacesPodSecurityStandards UserNamespacesSupport
  ValidatingAdmissionPolicy VolumeAttributesClass VolumeBindMountOptions VolumeCapacityPriority VolumeLimitScaling
  WatchBookmark WatchCacheInitializationPostStartHook WatchCacheStallResume WatchFromStorageWithoutResourceVersion
  WatchList WatchListClient WatchListCompression WebhookRoundTripLoadBalancing WinDSR WinOverlay
  WindowsCPUAndMemoryAffinity WindowsGracefulNodeShutdown WindowsHostNetwork WorkloadAwarePreemption WorkloadWithJob
  ZeroLimitedNominalConcurrencyShares
`
    .trim()
    .split(/\s+/),
);

const FLAG = 'feature-gates';

/** Reads `A=true,B=false` as Go's MapStringBool does. */
export function readFeatureGates(read: FlagReader): FeatureGates {
  const gates: Record<string, boolean> = {};
  for (const pair of (read.text(FLAG) ?? '').split(',')) {
    if (pair.trim() === '') continue;
    const [, name = '', text = ''] = /^([^=]*)=(.*)$/.exec(pair) ?? [];
    const value = parseBool(text.trim());
    const gate = name.trim();
    if (!pair.includes('='))
      read.fault(FLAG, `${pair}: must be a name with true or false, such as ${EXTERNAL_IPS_GATE}=false`);
    else if (!KNOWN.has(gate)) read.fault(FLAG, `unrecognized feature gate: ${gate}${hintAt(gate)}`);
    else if (value === undefined) read.fault(FLAG, `invalid value of ${gate}=${text.trim()}: must be true or false`);
    else gates[gate] = value;
  }
  return gates;
}

/** A hint at a known name that differs only in case, for the message. */
function hintAt(gate: string): string {
  const near = [...KNOWN].find((known) => known.toLowerCase() === gate.toLowerCase());
  return near === undefined ? '' : `; did you mean ${near}?`;
}

export function servesExternalIPs(gates: FeatureGates): boolean {
  return gates[EXTERNAL_IPS_GATE] ?? true;
}

export function streamsLists(gates: FeatureGates): boolean {
  return gates[STREAMS_GATE] ?? false;
}

export const EFFECTIVE_GATES: readonly string[] = [EXTERNAL_IPS_GATE, LOCALHOST_GATE, STREAMS_GATE];

/** Gates that were set and have no effect. */
export function idleGates(gates: FeatureGates): string[] {
  return Object.keys(gates).filter((gate) => !EFFECTIVE_GATES.includes(gate));
}
