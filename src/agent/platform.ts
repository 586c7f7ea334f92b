/**
 * Everything outside the agent that it reads or changes, in one interface: this machine, its kernel and files, the API server, and the clients
 * of its ports. The simulator of test/sim puts a world of its own in its place. Only time and chance are read directly.
 */
import { cpus, release } from 'node:os';
import type { Address, Family } from '../base/address.ts';
import { realClock } from '../base/clock.ts';
import { type Connect, connect } from '../cluster/api/transport.ts';
import { type DocumentReader, documentFiles, type OneFile, readOneFile } from '../cluster/documents/files.ts';
import { type WatchFolder, watchFolder } from '../cluster/source/watch-folder.ts';
import { agentNames, type NameService } from '../kernel/agent-name.ts';
import { type OpenRules, openRules } from '../kernel/chain-probe.ts';
import { type CommandRunner, lastingCommands } from '../kernel/commands.ts';
import { type OpenFlowTable, openFlowTable } from '../kernel/conntrack.ts';
import { hasServiceAddress, hasServiceDevice, routeTo } from '../kernel/devices.ts';
import type { IpvsKernel } from '../kernel/ipvs-kernel.ts';
import { openIpvsKernel } from '../kernel/ipvs-open.ts';
import { type ListeningSocket, readListeners } from '../kernel/listeners.ts';
import { releaseMemory, setOomScore } from '../kernel/memory.ts';
import type { NftKernel, NftTables, NftWrite, TableLabels } from '../kernel/nftables-kernel.ts';
import { openNftables } from '../kernel/nftables-netlink.ts';
import {
  hasIpvs,
  interfaceAddresses,
  legacyTables,
  localFamilies,
  mayChangeNetwork,
  setNames,
} from '../kernel/node-facts.ts';
import { makePodNetwork } from '../kernel/pod-network.ts';
import { type RecordFile, recordFile, rulesetRecordFile } from '../kernel/record-file.ts';
import { RulesetJournal } from '../kernel/ruleset-journal.ts';
import type { RulesetNotices } from '../kernel/ruleset-notices.ts';
import { realSettings, type SettingFiles } from '../kernel/sysctls.ts';
import { type OpenServer, openServer } from '../serve/http.ts';
import { type DatapathSockets, datapathSockets } from './datapath/reach.ts';
import { type Probe, tcpProbe } from './failover/probe.ts';
import { RAMPS_ROOM } from './ramp-record.ts';
import { type RecordingFiles, realRecordingFiles } from './recording/recording-files.ts';
import { type RelaySockets, relaySockets } from './relay/sockets.ts';
import { KEPT_ROOM, type TakeoverFiles } from './takeover/takeover-record.ts';

/** The kernel's nftables, with the sockets that were opened for it. */
export interface OpenNftables extends NftKernel, NftTables {
  /** See `NftNetlink.check`. Throws NftUnusable. */
  check(family: Family, writes: readonly NftWrite[]): void;
  /** The transactions of all programs, where the kernel sends notices of them. */
  readonly notices?: RulesetNotices;
  /** Labels of our tables, for the record of the state that the agent leaves. */
  readonly seen: TableLabels;
  close(): void;
}

/** The kernel's IPVS, with the sockets that were opened for it. */
export type OpenIpvs = IpvsKernel & { close(): void };

/** Facts of this machine. Functions read facts that change, anew at each call. */
export interface Machine {
  readonly cores: number;
  /** As `uname -r`. */
  readonly kernelRelease: string;
  mayChangeNetwork(): Promise<boolean>;
  families(): Promise<readonly Family[]>;
  /** See `legacyTables` in kernel/node-facts.ts. */
  legacyTables(family: Family): Promise<readonly string[]>;
  /** See `interfaceAddresses` in kernel/node-facts.ts. */
  addresses(family: Family): Promise<readonly Address[]>;
  listeners(): Promise<readonly ListeningSocket[]>;
  /** True when the module of IPVS is loaded. */
  hasIpvs(): Promise<boolean>;
  /** The names of ipset's sets; none where its module is not loaded. */
  setNames(): Promise<readonly string[]>;
  /** True when the dummy device of IPVS mode exists. */
  hasServiceDevice(): Promise<boolean>;
  /** True when that device has an address of one of these families. The device alone may be left for a family that nobody serves now. */
  hasServiceAddress(families: readonly Family[]): Promise<boolean>;
}

/** The kernel. Each function opens sockets of its own. */
export interface Kernel {
  /** Throws NftMissing and NftUnusable. */
  openNftables(): OpenNftables;
  /** Throws IpvsUnusable. */
  openIpvs(signal: AbortSignal): Promise<OpenIpvs>;
  readonly openRules: OpenRules;
  /** The transactions of nftables by all programs, for modes that write rules by commands. Without it they are noticed every syncPeriod. */
  readonly openNotices?: () => RulesetNotices;
  readonly openFlowTable: OpenFlowTable;
  readonly settings: SettingFiles;
  /** The record about its tables of nftables that one process leaves for the next. */
  readonly record: RecordFile;
  /** The endpoints whose weights grow, for an agent that restarts meanwhile. */
  readonly ramps: RecordFile;
  /** How far the takeover of this node is, and what is kept for the way back. */
  readonly takeover: TakeoverFiles;
  /** Removes the tables of traces that were killed; resolves with a name for each. */
  removeLeftTraces(): Promise<readonly string[]>;
}

export interface Files {
  /** Manifests. */
  readonly documents: DocumentReader;
  /** The file that --config names. Throws FileUnreadable. */
  readOne(path: string): Promise<OneFile>;
  readonly watch: WatchFolder;
  /** Of --record-dir. */
  readonly recordings: RecordingFiles;
}

/** This process, and its ports. */
interface Process {
  readonly listen: OpenServer;
  /** For node ports on loopback. */
  readonly relay: RelaySockets;
  /** For --failover=confirm. */
  readonly probe: Probe;
  /** For --takeover=confirm and --datapath-check. */
  readonly datapath: DatapathSockets;
  /** The name of the agent of this network namespace. */
  readonly names: NameService;
  setOomScore(score: number): Promise<void>;
  /** Returns memory of the start to the system. */
  releaseMemory(): void;
}

export interface Platform {
  readonly commands: CommandRunner;
  readonly machine: Machine;
  readonly kernel: Kernel;
  readonly files: Files;
  readonly process: Process;
  /** Opens connections to the API server. */
  readonly connect: Connect;
}

/** The real world. */
export const realPlatform: Platform = {
  commands: lastingCommands,
  machine: {
    cores: cpus().length,
    kernelRelease: release(),
    mayChangeNetwork,
    families: localFamilies,
    legacyTables,
    addresses: interfaceAddresses,
    listeners: readListeners,
    hasIpvs,
    setNames,
    hasServiceDevice,
    hasServiceAddress,
  },
  kernel: {
    openNftables,
    openIpvs: (signal) => openIpvsKernel(lastingCommands, signal),
    openRules,
    openNotices: () => new RulesetJournal(),
    openFlowTable,
    settings: realSettings,
    record: rulesetRecordFile(),
    ramps: recordFile('slow-start', { room: RAMPS_ROOM }),
    takeover: { state: recordFile('takeover'), kept: recordFile('takeover-kept', { room: KEPT_ROOM }) },
    // Loaded only here: it is done once.
    removeLeftTraces: async () => await (await import('../kernel/trace-table.ts')).removeLeftTraces(),
  },
  files: { documents: documentFiles, readOne: readOneFile, watch: watchFolder, recordings: realRecordingFiles },
  process: {
    listen: openServer,
    relay: relaySockets,
    probe: tcpProbe(realClock),
    datapath: datapathSockets(routeTo, makePodNetwork),
    names: agentNames,
    setOomScore,
    releaseMemory,
  },
  connect,
};

/** Closes sockets again that were opened for something that then cannot be built. */
export async function closeOnError<T>(opened: { close(): void }, build: () => Promise<T>): Promise<T> {
  try {
    return await build();
  } catch (error) {
    opened.close();
    throw error;
  }
}
