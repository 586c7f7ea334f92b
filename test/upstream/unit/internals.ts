/** Cases of kube-proxy's tests that are about its own parts: runners, informers, fakes, tools. */
import type { UpstreamCase, UpstreamFile } from '../cases.ts';
import { notHere, rows, tested } from '../held.ts';

const SCHEDULER = 'test/proxy/sync/scheduler.test.ts';
const SOURCE = 'test/cluster/source/kubernetes.test.ts';
const FAKE = 'it tests a fake of kube-proxy’s own tests';
const DRAINING = 'test/proxy/modes/ipvs/draining.test.ts';
const IPVS_FAULTS = 'test/proxy/modes/ipvs/faults.test.ts';
const IPVS_DESIRE = 'test/proxy/modes/ipvs/desire.test.ts';
const MESSAGES = 'test/native/messages.test.ts';

export const RUNNER: UpstreamFile = {
  path: 'pkg/proxy/runner/bounded_frequency_runner_test.go',
  cases: [
    ...[
      'Test_BoundedFrequencyRunner',
      'TestBoundedFrequencyRunner_Run_RunsAgainAfterMinInterval_RealClock',
      'TestBoundedFrequencyRunner_Run_DoesNotRunBeforeMinInterval_RealClock',
    ].map((title) =>
      tested(
        title,
        SCHEDULER,
        'runs at once after the first request',
        'pauses for min after a run, and makes one run of all requests in the pause (invariant 9)',
        'makes one more run of all requests during a run',
      ),
    ),
    ...['Test_BoundedFrequencyRunnerRetry', 'Test_BoundedFrequencyRunnerRetry_RealClock'].map((title) =>
      tested(
        title,
        SCHEDULER,
        'runs again after retry when a run failed, unless a run in between succeeded',
        'goes on to try again for as long as runs fail',
      ),
    ),
    tested(
      'Test_BoundedFrequencyRunnerRetryShorterThanMinInterval',
      SCHEDULER,
      'does not try again before min, where retry is shorter',
    ),
    tested('TestBoundedFrequencyRunner_RunAfterMaxInterval_RealClock', SCHEDULER, 'runs after max without any request'),
  ],
};

const followed = (title: string): UpstreamCase =>
  tested(
    title,
    SOURCE,
    'with a Service or slice that gets a label of those left alone drops it, and has it again without',
    'are followed where they are wanted, and faults of one are reported',
  );

/** Of tests that register several handlers. */
const ONE_READER = 'changes have one reader, the cache of the agent: there are no several handlers to tell';

export const SOURCES: UpstreamFile = {
  path: 'pkg/proxy/config/config_test.go',
  cases: [
    ...[
      'TestNewServiceAddedAndNotified',
      'TestServiceAddedRemovedSetAndNotified',
      'TestNewServicesMultipleHandlersAddedAndNotified',
      'TestNewEndpointsMultipleHandlersAddedAndNotified',
      'TestNewEndpointsMultipleHandlersAddRemoveSetAndNotified',
      'TestNewServiceCIDRsMultipleHandlersAddRemoveSetAndNotified',
    ].map((title) => ({ ...followed(title), ...(title.includes('Multiple') ? { not: ONE_READER } : {}) })),
    ...['TestNewNodesMultipleHandlersAddRemoveSetAndNotified', 'TestNewNodeTopologyConfig'].map((title) =>
      tested(title, 'test/netns/cluster.test.ts', 'follows-node'),
    ),
  ],
};

export const API: UpstreamFile = {
  path: 'pkg/proxy/config/api_test.go',
  cases: [
    ...[
      'TestNewServicesSourceApi_UpdatesAndMultipleServices',
      'TestNewEndpointsSourceApi_UpdatesAndMultipleEndpoints',
    ].map((title) => tested(title, 'test/netns/cluster.test.ts', 'follows')),
    tested(
      'TestInitialSync',
      'test/proxy/sync/faults.test.ts',
      'does not write before the lists of all sources are complete (invariant 1)',
    ),
  ],
};

const NUMBERS = 'kube-proxy counts its rules; slicewire writes others, and its tests bound what one change writes';

export const RULE_NUMBERS: UpstreamFile = {
  path: 'pkg/proxy/iptables/number_generated_rules_test.go',
  cases: [
    {
      title: 'TestNumberIptablesRules',
      tests: {
        'test/proxy/modes/netfilter/endpoint-groups.test.ts': [
          'needs few rules for a packet and few writes for a flap, at 5,000 endpoints',
        ],
        'test/proxy/modes/iptables/desire.test.ts': [
          'writes a few chains for one endpoint, however many Services there are (invariant 11)',
        ],
      },
      not: NUMBERS,
    },
    notHere('Test_generateServiceEndpoints', 'it tests a helper of the test above'),
  ],
};

export const IPTABLES_CLEANUP: UpstreamFile = {
  path: 'pkg/proxy/iptables/cleanup_test.go',
  cases: [
    {
      title: 'TestCleanupLeftovers',
      tests: {
        'test/proxy/sync/faults.test.ts': ['cleans up every jump to its chains, with duplicates'],
        'test/netns/agent.test.ts': ['cleans up all that is ours and nothing else (k8s#55857)'],
      },
    },
  ],
};

export const IPVS_CLEANUP: UpstreamFile = {
  path: 'pkg/proxy/ipvs/cleanup_test.go',
  cases: [
    tested(
      'TestCleanupLeftovers',
      IPVS_FAULTS,
      'keeps its servers and sets over runs and cleanup (k8s#55857), which removes our IPv6 sets too',
    ),
  ],
};

export const IPVS_DRAINING: UpstreamFile = {
  path: 'pkg/proxy/ipvs/graceful_termination_test.go',
  cases: [
    tested(
      'Test_GracefulDeleteRS/graceful delete, no connections results in deleting the real server immediatetly',
      DRAINING,
      'without connections is deleted at once',
    ),
    ...[
      "graceful delete, real server has active connections, weight should be 0 but don't delete",
      "graceful delete, real server has in-active connections, weight should be 0 but don't delete",
    ].map((row) =>
      tested(
        `Test_GracefulDeleteRS/${row}`,
        DRAINING,
        'with connections gets weight 0 first, and is deleted when they have ended',
      ),
    ),
    tested(
      'Test_GracefulDeleteRS/graceful delete, real server has connections, but udp connections are deleted immediately',
      DRAINING,
      'of UDP is deleted at once: the next packet of a flow finds another one',
    ),
    notHere(
      'Test_GracefulDeleteRS/graceful delete, real server mismatch should be no-op',
      'what is deleted is what the kernel was read to have: there is nothing to mismatch',
    ),
    notHere('Test_RaceTerminateRSList', 'it tests a list that threads of kube-proxy share; slicewire has one thread'),
  ],
};

export const IPVS_SUPPORTED: UpstreamFile = {
  path: 'pkg/proxy/ipvs/supported_test.go',
  cases: [
    tested(
      'TestCanUseIPVSProxier/happy days',
      'test/vm/agent.vm.ts',
      'plans without writing, writes what ipvsadm, ip and ipset show, has nothing to do then, nor after a restart',
    ),
    ...rows(
      'TestCanUseIPVSProxier',
      ['GetVirtualServers fail', 'AddVirtualServer fail', 'DeleteVirtualServer fail'],
      (title) =>
        tested(
          title,
          'test/vm/unusable.vm.ts',
          'ends run and plan with one line that says what is missing and what does without it',
        ),
    ),
    ...rows('TestCanUseIPVSProxier', ['ipset error', 'ipset version too low'], (title) =>
      notHere(title, 'sets are written by netlink: there is no tool whose version counts'),
    ),
  ],
};

const SETS =
  'ends in the same state whether built step by step or at once (invariant 12), and a restart writes nothing';

export const IPVS_SETS: UpstreamFile = {
  path: 'pkg/proxy/ipvs/ipset_test.go',
  cases: [
    notHere('TestCheckIPSetVersion', 'sets are written by netlink: there is no tool whose version counts'),
    {
      title: 'TestSyncIPSetEntries',
      tests: {
        [IPVS_DESIRE]: [SETS],
        'test/kernel/set-entries.test.ts': ['10.96.0.10,tcp:80 of hash:ip,port is the same after it was read back'],
      },
    },
  ],
};

const TOOL = 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink';

export const IPSET: UpstreamFile = {
  path: 'pkg/proxy/ipvs/ipset/ipset_test.go',
  cases: [
    ...['TestListEntries', 'TestListSets'].map(
      (title): UpstreamCase => ({
        title,
        tests: {
          [MESSAGES]: [
            'ipset list -n, as names',
            'reads the first part of a set: its type and maxelem, and entries of every field',
          ],
        },
        not: TOOL,
      }),
    ),
    ...[
      'TestCheckIPSetVersion',
      'TestFlushSet',
      'TestDestroySet',
      'TestDestroyAllSets',
      'TestCreateSet',
      'TestAddEntry',
      'TestDelEntry',
      'TestTestEntry',
      'TestTestEntryIPv6',
      'Test_validIPSetType',
      'Test_validatePortRange',
      'Test_validateFamily',
      'Test_validateProtocol',
      'TestValidateIPSet',
      'Test_setIPSetDefaults',
      'Test_checkIPandProtocol',
      'Test_parsePortRange',
      'TestValidateEntry',
      'TestEntryString',
    ].map((title) => notHere(title, TOOL)),
  ],
};

export const IPVS_NETLINK: UpstreamFile = {
  path: 'pkg/proxy/ipvs/util/ipvs_linux_test.go',
  cases: [
    'Test_toVirtualServer',
    'Test_toIPVSService',
    'Test_toRealServer',
    'Test_toIPVSDestination',
    'Test_stringToProtocol',
    'Test_protocolToString',
  ].map((title) =>
    tested(
      title,
      MESSAGES,
      'reads a server, and skips a server by firewall mark',
      'reads a destination, also without its family',
    ),
  ),
};

export const IPVS_VALUES: UpstreamFile = {
  path: 'pkg/proxy/ipvs/util/ipvs_test.go',
  cases: [
    ...['TestVirtualServerEqual', 'TestRealServerEqual'].map((title) => tested(title, IPVS_DESIRE, SETS)),
    ...['TestFrontendServiceString', 'TestFrontendDestinationString'].map((title) =>
      notHere(title, 'it tests the text by which kube-proxy names a server in its own code and logs'),
    ),
  ],
};

const fakes = (path: string, ...titles: string[]): UpstreamFile => ({
  path,
  cases: titles.map((title) => notHere(title, FAKE)),
});

export const FAKE_SERVERS = fakes('pkg/proxy/ipvs/util/testing/fake_test.go', 'TestVirtualServer', 'TestRealServer');
export const FAKE_SETS = fakes('pkg/proxy/ipvs/ipset/testing/fake_test.go', 'TestSetEntry');
export const FAKE_ADDRESSES = fakes('pkg/proxy/ipvs/testing/fake_test.go', 'TestSetGetLocalAddresses');
