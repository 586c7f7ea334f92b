/**
 * Starts an agent in nftables mode beside nothing: the machine, the kernel and the API server are in memory, and the agent ends after
 * its first sync. The build calls it, so that the functions of a start are in the compiled code. The executable never does.
 */
import { Readable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { datapathSockets } from '../../src/agent/datapath/reach.ts';
import type { Platform } from '../../src/agent/platform.ts';
import { realRecordingFiles } from '../../src/agent/recording/recording-files.ts';
import { Recordings } from '../../src/agent/recording/recordings.ts';
import { relaySockets } from '../../src/agent/relay/sockets.ts';
import { Reloader } from '../../src/agent/reload.ts';
import type { Address } from '../../src/base/address.ts';
import { realClock } from '../../src/base/clock.ts';
import type { Incoming, Outgoing } from '../../src/cluster/api/answer.ts';
import type { Connect } from '../../src/cluster/api/transport.ts';
import { documentFiles } from '../../src/cluster/documents/files.ts';
import { configFromFlags } from '../../src/config/from-flags.ts';
import { Recorder } from '../../src/inspect/history/recorder.ts';
import { tableKernel } from '../../src/inspect/replay/kernels-in-memory.ts';
import type { NameService } from '../../src/kernel/agent-name.ts';
import { type CommandRunner, realCommands } from '../../src/kernel/commands.ts';
import { Hangups } from '../../src/kernel/process.ts';
import { createLog } from '../../src/telemetry/log.ts';

/** The answers to lists, in protobuf, and the Node, in JSON, each by the last part of its path. */
export type Answers = Readonly<Record<string, Buffer>>;

const SERVER = 'https://192.0.2.1:6443';
/** The first sync takes less than a second. */
const SYNC_TIMEOUT_MS = 120_000;

/** Throws when there was no first sync in time, because a build must not wait for ever. */
export async function warmUp(answers: Answers, timeout = SYNC_TIMEOUT_MS): Promise<void> {
  const flags = { proxyMode: 'nftables', master: SERVER, hostnameOverride: 'node-0', clusterCidr: '10.128.0.0/9' };
  const config = configFromFlags(flags);
  const log = await createLog(config.log);
  const stop = new AbortController();
  const recordings = new Recordings({ recorder: new Recorder(realClock), log, files: realRecordingFiles });
  let isSynced = false;
  const platform = nothingOutside(answers, () => {
    isSynced = true;
    stop.abort(new Error('the first sync is done'));
  });
  const hangups = new Hangups(() => undefined);
  // The command of a process, too: it ends at once.
  await realCommands.run({ file: process.execPath, args: ['--version'] }, stop.signal);
  const agent = new Reloader({
    config,
    log,
    signal: stop.signal,
    timesAsked: () => 0,
    hangups,
    recordings,
    flags,
    configDigest: undefined,
    platform,
  });
  const late = setTimeout(() => stop.abort(new Error('the first sync is late')), timeout);
  await agent.run().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  clearTimeout(late);
  if (!isSynced) throw new Error(`the agent of the warm-up has no complete first sync after ${timeout / 1000} s`);
}

function nothingOutside(answers: Answers, onSynced: () => void): Platform {
  const addresses: Readonly<Record<string, readonly Address[]>> = {
    IPv4: ['127.0.0.1' as Address, '10.0.0.1' as Address],
    IPv6: ['::1' as Address],
  };
  const ignored = () => Promise.resolve();
  return {
    commands: NO_RULES,
    machine: {
      cores: 2,
      kernelRelease: '6.18.0',
      mayChangeNetwork: () => Promise.resolve(true),
      families: () => Promise.resolve(['IPv4', 'IPv6']),
      legacyTables: () => Promise.resolve([]),
      addresses: (family) => Promise.resolve(addresses[family] ?? []),
      listeners: () => Promise.resolve([]),
      hasIpvs: () => Promise.resolve(false),
      setNames: () => Promise.resolve([]),
      hasServiceDevice: () => Promise.resolve(false),
      hasServiceAddress: () => Promise.resolve(false),
    },
    kernel: {
      openNftables: () => ({
        ...tableKernel(),
        check: () => undefined,
        hasTable: () => false,
        keys: () => Promise.resolve([]),
        isDormant: () => false,
        changeTables: () => undefined,
        seen: { label: () => undefined, labelled: new Map(), isAsLeft: () => false, believe: () => undefined },
        close: () => undefined,
      }),
      openIpvs: () => Promise.reject(new Error('there is no IPVS')),
      openRules: () =>
        Promise.resolve({
          chain: () => ({ kind: 'known', exists: false }),
          generation: () => 1,
          close: () => undefined,
        }),
      openFlowTable: () =>
        Promise.resolve({
          udpFlows: noFlows,
          openings: noFlows,
          translated: noFlows,
          unanswered: noFlows,
          entries: noFlows,
          delete: () => 0,
          close: () => undefined,
        }),
      settings: SETTINGS,
      record: NO_RECORD,
      ramps: NO_RECORD,
      takeover: { state: NO_RECORD, kept: NO_RECORD },
      removeLeftTraces: () => Promise.resolve([]),
    },
    files: {
      documents: documentFiles,
      readOne: () => Promise.reject(new Error('there is no file')),
      watch: () => ({ onEnd: () => undefined, close: () => undefined }),
      recordings: realRecordingFiles,
    },
    process: {
      listen: () => Promise.resolve({ close: ignored }),
      relay: relaySockets,
      names: NO_NAMES,
      probe: () => Promise.resolve('unknown'),
      datapath: datapathSockets(
        () => Promise.resolve(undefined),
        () => Promise.reject(new Error('no Pod is joined in the warm-up')),
      ),
      setOomScore: ignored,
      releaseMemory: onSynced,
    },
    connect: connectTo(answers),
  };
}

const SETTINGS = {
  read: () => Promise.resolve('0'),
  write: () => Promise.resolve(),
  whyNotWritable: () => Promise.resolve(undefined),
  isReadOnly: () => Promise.resolve(false),
};
const NO_NAMES: NameService = {
  take: () => Promise.resolve({ release: () => Promise.resolve() }),
  ask: () => Promise.resolve({ kind: 'no connection', cause: 'there is no agent' }),
  uid: 0,
};
const NO_RECORD = {
  path: () => '',
  place: () => 'nowhere',
  read: () => undefined,
  write: () => undefined,
  remove: () => false,
};

function* noFlows(): Generator<readonly never[], boolean> {
  yield [];
  return false;
}

/** Tools of iptables on a node without rules of service proxies. */
const NO_RULES: CommandRunner = {
  async run({ args }) {
    await turn();
    if (args.includes('--version')) return { exitCode: 0, stdout: 'iptables v1.8.9 (nf_tables)\n', stderr: '' };
    if (args.includes('POSTROUTING')) return { exitCode: 0, stdout: '', stderr: '' };
    return { exitCode: 1, stdout: '', stderr: 'iptables: No chain/target/match by that name.\n' };
  },
};

function connectTo(answers: Answers): Connect {
  return () => ({
    async request({ url, isWatch, signal }: Outgoing): Promise<Incoming> {
      await turn();
      const body = isWatch ? new Readable({ read: () => undefined, signal }) : bodyOf(answers, url);
      // A watch that is aborted is no error here.
      body?.on('error', () => undefined);
      const isJson = url.pathname.endsWith('nodes') || isWatch;
      return {
        status: body === undefined ? 404 : 200,
        statusText: '',
        headers: { 'content-type': isJson ? 'application/json' : 'application/vnd.kubernetes.protobuf' },
        body: body ?? Readable.from([]),
        isWhole: () => true,
      };
    },
    close: () => undefined,
  });
}

function bodyOf(answers: Answers, url: URL): Readable | undefined {
  const answer = answers[url.pathname.split('/').at(-1) ?? ''];
  return answer === undefined ? undefined : Readable.from([answer]);
}
