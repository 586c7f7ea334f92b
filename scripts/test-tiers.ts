/** The tiers of the tests, as data: which files, how many at a time, what they need, how long they may take. */
import { globSync } from 'node:fs';
import { join } from 'node:path';

export interface Part {
  readonly name: string;
  /** Globs from the root of the repository. */
  readonly files?: readonly string[];
  /** Globs of files that another part has. */
  readonly except?: readonly string[];
  /** Instead of test files: programs of npm packages, each of them one test. */
  readonly programs?: readonly (readonly string[])[];
  /** Processes that run test files at the same time. */
  readonly concurrency: number;
  /**
   * Test files that one process runs, one after another; by default each file has its own. Most files of units take less time than the start
   * of a process that has all modules.
   */
  readonly filesOfProcess?: number;
  /** Network namespaces, mounts and users can be made by root alone. */
  readonly needsRoot: boolean;
  /** Arguments of scripts/prepare.sh. */
  readonly tools: readonly string[];
  /** Why `.ci/run`, which has 25 minutes, leaves it out; undefined: it does not. */
  readonly leftOutOfCI?: string;
}

export interface Tier {
  readonly name: string;
  /** Its tests start the executable, which is built before, instead of the sources. */
  readonly isBuilt?: boolean;
  /** The command that runs it. */
  readonly command: string;
  /** Seconds on a machine of two cores that does nothing else. The run says so when it takes half as long again. */
  readonly budget: number;
  readonly parts: readonly Part[];
}

/**
 * Files of many seconds that need no root, and two that measure their own process. They are the second tier, so that the first one stays below
 * 5 minutes.
 */
const LONG = [
  'test/messages.test.ts',
  'test/proxy/modes/ipvs/{set-sizes,desire}.test.ts',
  'test/proxy/modes/nftables/{parts,desire}.test.ts',
  'test/proxy/modes/iptables/between-commits.test.ts',
  'test/proxy/{model/histories,sync/faulty-kernel}.test.ts',
  'test/{controller/replicas,cluster/documents/nasty,serve/http-connection,fleet/server}.test.ts',
  'test/cluster/{producers/{golden-cases,histories},documents/thread}.test.ts',
  'test/inspect/explain/{oracle,work,agreement}.test.ts',
  'test/inspect/replay/replay-recording.test.ts',
  'test/deploy/{install-pages,chart,chart-values,chart-twice}.test.ts',
  'test/{release/sbom,bench/process-cost}.test.ts',
  'test/{fuzz,sim}/**/*.test.ts',
];
/** Commands that are started many times. */
const LONG_COMMANDS = ['test/cli/{bad-input,completion,stuck-files}.test.ts'];
/** Tools of the tests of commands. */
const COMMAND_TOOLS = ['iptables', 'ip', 'sysctl', 'gcc', 'zsh', 'fish', 'script', 'stty', 'mandoc', 'groff'];

/** The agent on a real kernel: what it writes, keeps, takes over and repairs, with packets. */
const AGENT = [
  'test/netns/{agent,nftables-agent,operating,stale-flows,other-proxies,drift,udp-flows,switching,probes}.test.ts',
  'test/netns/{signals,sctp,inspection,remote-hairpin,connection-counts,limits-nftables,programmed,simulated-nftables}.test.ts',
];
const VM_TOOLS = ['iptables', 'nft', 'ipset', 'conntrack', 'ip', 'sysctl', 'ipvsadm', 'vm', 'systemd-analyze', 'gcc'];
const NETWORK_TOOLS = ['iptables', 'nft', 'ipset', 'conntrack', 'ip', 'sysctl', 'openssl', 'gcc', 'curl'];

/** In a part, slow test files come first, so that none runs alone at the end. */
export const TIERS: readonly Tier[] = [
  {
    name: 'quick',
    command: 'npm test',
    budget: 270,
    parts: [
      {
        name: 'check',
        programs: [['tsc'], ['tsc', '-p', 'src/web'], ['biome', 'check']],
        concurrency: 1,
        needsRoot: false,
        tools: [],
      },
      {
        name: 'unit',
        files: [
          'test/{base,kernel,proxy,cluster,inspect,serve,telemetry,controller,config,agent,shadow,fleet,native}/**/*.test.ts',
          'test/cli/{commands,kubectl}/*.test.ts',
          'test/{helpers,recordings,release,scripts}/**/*.test.ts',
          'test/web/*.test.ts',
          'test/bench/{cluster,proxies,text}.test.ts',
          'test/{soak/{judge,parts},vm/reporter,rivals/report}.test.ts',
          'test/deploy/*.test.ts',
          'test/upstream/{,unit/}*.test.ts',
          'test/*.test.ts',
        ],
        except: [
          'test/fleet/roll-out.test.ts',
          'test/deploy/{image,promtool,release}.test.ts',
          'test/native/{abi,arm64}.test.ts',
          'test/fleet/drained/native/*.test.ts',
          'test/scripts/executable.test.ts',
          ...LONG,
        ],
        concurrency: 2,
        filesOfProcess: 12,
        needsRoot: false,
        tools: ['openssl'],
      },
      {
        name: 'conformance',
        files: ['test/conformance/*.test.ts'],
        concurrency: 2,
        filesOfProcess: 12,
        needsRoot: false,
        tools: [],
      },
      {
        name: 'scenarios',
        files: ['test/scenarios/*.test.ts'],
        concurrency: 2,
        filesOfProcess: 12,
        needsRoot: false,
        tools: [],
      },
      {
        name: 'commands',
        files: ['test/cli/*.test.ts', 'test/bench/{kernel-probe,kube-proxy,traffic}.test.ts'],
        except: LONG_COMMANDS,
        concurrency: 2,
        needsRoot: true,
        tools: COMMAND_TOOLS,
      },
      {
        // Real packets: a third of the stories, and the rows of the tables that no story sends real packets for.
        name: 'packets',
        files: ['test/netns/chosen-stories-*.test.ts', 'test/netns/{affinity,localhost}.test.ts'],
        concurrency: 4,
        needsRoot: true,
        tools: ['iptables', 'nft', 'ip', 'sysctl', 'conntrack'],
      },
    ],
  },
  {
    name: 'long',
    isBuilt: true,
    command: 'npm run test:long',
    budget: 240,
    parts: [
      {
        name: 'unit',
        files: LONG,
        except: ['test/sim/tier/*.test.ts'],
        concurrency: 2,
        needsRoot: false,
        tools: ['openssl'],
      },
      {
        // Constants and layouts of the C headers, and the program in C.
        name: 'c',
        files: ['test/native/abi.test.ts', 'test/fleet/drained/native/{fuzz,parity,program}.test.ts'],
        concurrency: 2,
        needsRoot: false,
        tools: ['gcc'],
      },
      {
        // The program in C with the files of a container, which need a mount namespace.
        name: 'container',
        files: ['test/fleet/drained/native/container.test.ts'],
        concurrency: 1,
        needsRoot: true,
        tools: ['gcc'],
      },
      {
        name: 'commands',
        files: LONG_COMMANDS,
        concurrency: 2,
        needsRoot: true,
        tools: COMMAND_TOOLS,
      },
    ],
  },
  {
    name: 'kernel',
    isBuilt: true,
    command: 'npm run test:kernel',
    budget: 1000,
    parts: [
      {
        name: 'agent',
        files: AGENT,
        // They wait for the kernel, and for silence, more than they compute.
        concurrency: 5,
        needsRoot: true,
        tools: NETWORK_TOOLS,
      },
      {
        name: 'stories',
        files: ['test/netns/stories-*.test.ts'],
        concurrency: 3,
        needsRoot: true,
        tools: NETWORK_TOOLS,
        leftOutOfCI: '`npm test` sends the packets of a third of them.',
      },
      {
        name: 'network',
        files: ['test/soak/soak.test.ts', 'test/questions/*.test.ts', 'test/netns/*.test.ts'],
        except: [
          ...AGENT,
          'test/netns/{chosen-,}stories-*.test.ts',
          'test/netns/{affinity,localhost,rest,dense,floods,limits-flood,scrape}.test.ts',
        ],
        concurrency: 5,
        needsRoot: true,
        tools: NETWORK_TOOLS,
        leftOutOfCI: 'Each of them is about one feature, and they take seven minutes.',
      },
      {
        // They compute: clusters of several agents.
        name: 'upstream',
        files: ['test/upstream/e2e/*.test.ts'],
        concurrency: 2,
        needsRoot: true,
        tools: NETWORK_TOOLS,
      },
      {
        name: 'nft-versions',
        files: ['test/nft-versions/*.test.ts'],
        concurrency: 1,
        needsRoot: true,
        tools: NETWORK_TOOLS,
        leftOutOfCI: 'The tests of the part agent use one version of nft.',
      },
      {
        // A cluster in which Pods end under load: it needs processors in time.
        name: 'fleet',
        files: ['test/fleet/roll-out.test.ts'],
        concurrency: 1,
        needsRoot: true,
        tools: ['nft', 'conntrack', 'ip', 'sysctl'],
        leftOutOfCI: 'Histories have a fleet whose Pods end, and the tier quick has the tests of its parts.',
      },
      {
        // The live page in Chromium.
        name: 'browser',
        files: ['test/web/browser/*.test.ts'],
        concurrency: 2,
        needsRoot: true,
        tools: ['iptables', 'nft', 'ip', 'sysctl', 'chromium'],
        leftOutOfCI: '`npm test` has the tests of the page without a browser.',
      },
      {
        // Alerts and metrics by Prometheus' own program.
        name: 'alerts',
        files: ['test/deploy/promtool.test.ts', 'test/netns/scrape.test.ts'],
        concurrency: 2,
        needsRoot: true,
        tools: ['promtool', 'curl', 'nft', 'iptables', 'ip', 'sysctl'],
      },
      {
        // They count processes, or need every processor in time.
        name: 'alone',
        files: ['test/netns/{rest,dense,floods,limits-flood}.test.ts'],
        concurrency: 1,
        needsRoot: true,
        tools: ['iptables', 'nft', 'conntrack', 'ip', 'sysctl', 'gcc', 'curl'],
        leftOutOfCI: 'They take four minutes, and need a machine that does nothing else.',
      },
    ],
  },
  {
    name: 'vm',
    isBuilt: true,
    command: 'npm run test:vm',
    budget: 1400,
    parts: [
      {
        name: 'agents',
        files: ['test/vm/agents.test.ts'],
        concurrency: 1,
        needsRoot: true,
        tools: VM_TOOLS,
      },
      {
        name: 'systemd',
        files: ['test/vm/systemd.test.ts'],
        concurrency: 1,
        needsRoot: true,
        tools: VM_TOOLS,
      },
      {
        // Two machines side by side.
        name: 'machines',
        files: ['test/vm/machine.test.ts'],
        concurrency: 1,
        needsRoot: true,
        tools: VM_TOOLS,
        leftOutOfCI:
          'Emulated machines need twenty minutes for a third of the stories, SCTP, the relay, and what IPVS mode does under traffic.',
      },
    ],
  },
  {
    name: 'sim',
    command: 'npm run test:sim',
    budget: 500,
    parts: [
      {
        // They compute: one file a processor.
        name: 'histories',
        files: ['test/sim/tier/{histories,real}.test.ts', 'test/sim/tier/*.test.ts'],
        except: ['test/sim/tier/{every-call,mutants}.test.ts'],
        concurrency: 2,
        needsRoot: true,
        tools: ['iptables', 'nft', 'ip', 'ipset'],
      },
      {
        name: 'mutants',
        files: ['test/sim/tier/mutants.test.ts'],
        concurrency: 1,
        needsRoot: true,
        tools: [],
        leftOutOfCI: 'The tests that find the mutants run in the tiers quick and long.',
      },
      {
        name: 'every-call',
        files: ['test/sim/tier/every-call.test.ts'],
        concurrency: 1,
        needsRoot: false,
        tools: [],
        leftOutOfCI: 'Histories have faults at calls too, at random ones.',
      },
    ],
  },
  {
    name: 'image',
    command: 'npm run test:image',
    budget: 400,
    parts: [
      {
        name: 'executable',
        files: ['test/scripts/executable.test.ts'],
        concurrency: 1,
        needsRoot: true,
        tools: ['iptables', 'ip', 'sysctl', 'curl', 'gcc'],
        leftOutOfCI:
          'The tiers kernel and vm build the executable, and run it. It is tested by itself before a release.',
      },
      {
        name: 'image',
        files: ['test/deploy/image.test.ts'],
        concurrency: 1,
        needsRoot: true,
        tools: ['image'],
        leftOutOfCI: 'An image is tested before it is published (docs/releasing.md).',
      },
      {
        // Both architectures, one of them by an emulator.
        name: 'release',
        files: ['test/deploy/release.test.ts', 'test/native/arm64.test.ts', 'test/fleet/drained/native/arm64.test.ts'],
        concurrency: 2,
        needsRoot: true,
        tools: ['iptables', 'image', 'release', 'fakeroot', 'arch-test', 'aarch64-linux-gnu-gcc'],
        leftOutOfCI: 'A release is tested before it is published (docs/releasing.md).',
      },
    ],
  },
];

/** Absolute paths, each once, in the order of the globs. */
export function filesOf({ files = [], except = [] }: Part, root: string): string[] {
  const find = (globs: readonly string[]) => globs.flatMap((glob) => globSync(glob, { cwd: root }).sort());
  const others = new Set(find(except));
  return [...new Set(find(files))].filter((file) => !others.has(file)).map((file) => join(root, file));
}
