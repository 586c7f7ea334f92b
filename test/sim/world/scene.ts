/** An agent with a few Services from a file in memory in the simulated world, for tests of the world itself. */
import assert from 'node:assert/strict';
import type { Files } from '../../../src/agent/platform.ts';
import { type Removal, removeAll } from '../../../src/agent/predecessors.ts';
import { configFromFlags } from '../../../src/config/from-flags.ts';
import type { IptablesVariant } from '../../../src/kernel/iptables-tools.ts';
import { Random } from '../../helpers/base/random.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { Calls, SimProcess } from '../engine/process.ts';
import { SimTime } from '../engine/time.ts';
import type { SimMode } from '../history/actions.ts';
import { NODE } from '../history/objects.ts';
import { SimKernel } from '../kernel/kernel.ts';
import { startAgent } from './agent-run.ts';
import { HEALTH_PORT, METRICS_PORT } from './config-text.ts';
import { SimDisk } from './disk.ts';
import { SimLoopback } from './loopback.ts';
import { SimNames } from './names.ts';
import { simPlatform } from './platform.ts';
import { type Answered, SimPorts } from './ports.ts';

const FILE = '/manifests/all.yaml';

export const OBJECTS: readonly object[] = [
  service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80, targetPort: 8080 }] } }),
  slice({ name: 'web-1', service: 'web', endpoints: ['10.244.1.7', '10.244.2.7'] }),
  service({
    name: 'dns',
    spec: { type: 'NodePort', clusterIP: '10.96.0.11', ports: [{ port: 53, protocol: 'UDP', nodePort: 30_053 }] },
  }),
  slice({ name: 'dns-1', service: 'dns', ports: [{ name: '', port: 53, protocol: 'UDP' }], endpoints: ['10.244.1.8'] }),
];

export interface SceneOptions {
  readonly mode: SimMode;
  readonly variant: IptablesVariant;
  /** See `SimNftablesOptions`. */
  readonly longestSent?: number;
}

export interface Scene {
  readonly kernel: SimKernel;
  readonly calls: Calls;
  readonly ports: SimPorts;
  /** The log of the agents. */
  readonly lines: readonly string[];
  /** The agent now; it is started again 100 ms after its end, as by a supervisor. */
  readonly process: () => SimProcess;
  /** The agent is killed, and starts again in another mode. */
  restartIn(mode: SimMode): void;
  /** The agent is killed, and `slicewire cleanup` runs before it starts again. */
  cleanUp(): Promise<Removal>;
  /** The objects of the file from now on. */
  put(objects: readonly object[]): void;
  /** Until so many milliseconds have passed. */
  run(milliseconds: number): Promise<void>;
  /** Asks the agent for its health. */
  ask(path: string): Promise<Answered | undefined>;
  /** Puts the real time back. */
  end(): void;
}

export function simScene({ mode: first, variant, longestSent }: SceneOptions): Scene {
  let mode = first;
  const time = new SimTime(new Random(7).next);
  const uninstall = time.install();
  const calls = new Calls(time);
  const kernel = new SimKernel({ time, iptables: variant, longestSent });
  const ports = new SimPorts();
  const names = new SimNames();
  const disk = new SimDisk();
  const network = { isSilent: () => false };
  const loopback = new SimLoopback({ time, ...network });
  const lines: string[] = [];
  let [objects, stamp, starts] = [OBJECTS, 1, 0];
  let process: SimProcess;
  let isOver = false;
  const files = { of: () => filesOf(() => ({ objects, stamp: String(stamp) })) };
  const api = {
    connect: () => () => {
      throw new Error('this scene has no API server');
    },
  };
  const platform = (of: SimProcess) => simPlatform(of, { kernel, api, files, disk, ports, names, network, loopback });
  const start = () => {
    if (isOver) return;
    starts += 1;
    const own = new SimProcess(`agent ${starts}`, kernel.nextPid(), calls);
    process = own;
    const restart = () => {
      own.kill();
      time.after(100, start, { isDead: false });
    };
    own.onDeath(restart);
    startAgent({
      process: own,
      platform: platform(own),
      flags: {
        manifests: FILE,
        hostnameOverride: NODE,
        proxyMode: mode,
        conntrackMaxPerCore: '0',
        programmedAuthentication: 'false',
      },
      onLine: (line) => void lines.push(line),
      onEnd: (error) => {
        lines.push(`the agent ended: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
        own.kill();
      },
    });
  };
  start();
  return {
    kernel,
    calls,
    ports,
    lines,
    process: () => process,
    restartIn(next) {
      mode = next;
      process.kill();
    },
    async cleanUp() {
      isOver = true;
      process.kill();
      const cleaner = new SimProcess('cleanup', kernel.nextPid(), calls);
      const config = configFromFlags({ manifests: FILE, hostnameOverride: NODE, proxyMode: mode });
      let removal: Removal | undefined;
      const done = cleaner.run(async () => {
        removal = await removeAll(config, new AbortController().signal, platform(cleaner));
      });
      await time.runUntil(time.now + 50);
      await done;
      assert.ok(removal);
      return removal;
    },
    put(next) {
      objects = next;
      stamp += 1;
    },
    run: (milliseconds) => time.runUntil(time.now + milliseconds),
    ask: (path) => ports.ask({ port: path.startsWith('/metrics') ? METRICS_PORT : HEALTH_PORT, path }),
    end() {
      isOver = true;
      process.kill();
      time.end();
      uninstall();
    },
  };
}

/** One file, without faults. */
function filesOf(
  now: () => { readonly objects: readonly object[]; readonly stamp: string },
): Omit<Files, 'recordings'> {
  return {
    documents: {
      stuck: [],
      list: async () => ({ kind: 'file' }),
      async read({ stamp, onValues }) {
        const file = now();
        if (stamp === file.stamp) return { kind: 'same' };
        onValues(file.objects.map((value) => ({ kind: 'value', value, line: 1, repeated: [] })));
        return { kind: 'read', stamp: file.stamp, digest: file.stamp, problems: [], problemCount: 0 };
      },
      parse: async () => ({ kind: 'unreadable', cause: 'no text' }),
    },
    readOne: async () => {
      throw new Error('this scene has no configuration file');
    },
    watch: () => ({ onEnd: () => undefined, close: () => undefined }),
  };
}
