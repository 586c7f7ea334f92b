/**
 * `--takeover=confirm`: what a predecessor has in the kernel is kept before the first write. While the window is open, the agent checks that its
 * rules serve. When they do not, the predecessor's come back, and the agent writes nothing more until it is told to try again
 * (docs/takeover.md).
 */
import { causeOf, firstLine } from '../../base/cause.ts';
import { aborted, type Clock, sleep } from '../../base/clock.ts';
import type { Config } from '../../config/config.ts';
import { version } from '../../config/program-version.ts';
import { firstOf } from '../../inspect/wire/format.ts';
import type { Verification } from '../../inspect/wire/verification.ts';
import { TAKEOVER_ANNOTATION } from '../../proxy/model/labels.ts';
import { type ApplyReport, failedReport } from '../../proxy/reconcile/step.ts';
import type { SyncReport } from '../../proxy/sync/sync-results.ts';
import type { Log } from '../../telemetry/log.ts';
import type { Agent } from '../agent.ts';
import type { Datapath } from '../datapath/datapath.ts';
import type { Platform } from '../platform.ts';
import { syncOutcomeOf } from '../sync-outcome.ts';
import { bringBack, isNothing, type KeepingInput, keep, removeServersLeft } from './keeping.ts';
import { lostServices, sampleNow } from './sample.ts';
import { TakeoverRecord, type TakeoverState, type ToldBefore } from './takeover-record.ts';
import { type Findings, Trial } from './trial.ts';

/** Milliseconds from the end of a round of checks to the next. */
const ROUND_MS = 1000;
/** Milliseconds until a way back that failed is tried again. */
const RETRY_MS = 1000;
/** Milliseconds between two looks whether the connections of servers have ended. */
const WAITING_MS = 5000;
/** Syncs in a row that were not complete, after which a takeover failed. One alone may have met a lock. */
const FAILED_SYNCS = 3;
/** Limit of differences that a cause names. */
const MAX_NAMED = 3;

/** The stages for people and metrics: `none` where no confirmation is asked for, or nothing was written yet. */
export const STAGES = ['none', 'open', 'confirmed', 'went back'] as const;
export type TakeoverStage = (typeof STAGES)[number];

/** How far the takeover is. */
export interface TakeoverAt {
  readonly stage: TakeoverStage;
  /** Why the agent is not ready, as a sentence; undefined where the takeover is no reason. */
  readonly unready: string | undefined;
  /** The event that just happened, as a sentence; undefined for the stage in which an earlier process left the takeover. */
  readonly news: string | undefined;
}

export interface TakeoverOptions {
  readonly platform: Platform;
  readonly clock: Clock;
  readonly log: Log;
  readonly datapath: Pick<Datapath, 'check'>;
  /** Why the agent is not healthy, each as a sentence. */
  readonly unhealthy: () => readonly string[];
  /** As `slicewire verify`. */
  readonly verify: (signal: AbortSignal) => Promise<Verification>;
  readonly onStage: (at: TakeoverAt) => void;
  /** The checks are over, or there is no predecessor and so nothing to check. */
  readonly onDecided: (config: Config) => void;
  /** Requests another generation of the agent. */
  readonly onAgain: () => void;
}

/** The generation of the agent that works now. */
interface Present {
  readonly agent: Agent;
  readonly config: Config;
  /** See `ModeInput`. */
  readonly keepsTables: boolean;
  readonly signal: AbortSignal;
}

type Open = Extract<TakeoverState, { readonly kind: 'open' }>;
type Failed = Extract<TakeoverState, { readonly kind: 'going back' | 'went back' | 'no way back' }>;

/** The record of an earlier process cannot be read. */
interface Unreadable {
  readonly kind: 'unreadable';
  readonly cause: string;
}

const UNCONFIRMED = 'the takeover of this node is not confirmed yet: the agent checks whether its rules serve';

export class Takeover {
  readonly #options: TakeoverOptions;
  readonly #record: TakeoverRecord;
  /** undefined: nothing was written yet. */
  #state: TakeoverState | Unreadable | undefined;
  #isLoaded = false;
  /** The record could not be written. */
  #isUnwritten = false;
  /** The next generation begins the takeover anew. */
  #isAgain = false;
  /** The next generation removes what the predecessor has. */
  #isToRebuild = false;
  /** An earlier process confirmed the takeover, and this one has not written yet. */
  #isOfEarlier = false;
  #at: Present | undefined;
  /** The first write of this generation, and its first complete sync; on the monotonic clock. */
  #openSince: number | undefined;
  #completeSince: number | undefined;
  /** Why the last sync was not complete, and how many in a row were not. */
  #incomplete = '';
  #failedSyncs = 0;

  constructor(options: TakeoverOptions) {
    this.#options = options;
    this.#record = new TakeoverRecord(options.platform.kernel.takeover);
  }

  /** Whether a generation that is built now keeps tables of nftables of a predecessor, dormant. */
  keepsTables({ takeover }: Config): boolean {
    if (takeover.how === 'none') return false;
    this.#load();
    return this.#isUndecided;
  }

  /** The checks go on, or begin with this generation or the next. */
  get #isUndecided(): boolean {
    return this.#isAgain || this.#state === undefined || this.#state.kind === 'open';
  }

  /** The agent writes nothing: what a predecessor had is in the kernel, or comes back to it. */
  get isHeld(): boolean {
    const kind = this.#state?.kind;
    return kind === 'going back' || kind === 'went back' || kind === 'unreadable';
  }

  /** Whether the checks of a takeover need connections through the rules, now or soon. */
  needsDatapath({ takeover }: Config): boolean {
    return takeover.how !== 'none' && this.#isUndecided;
  }

  /** Another generation of the agent begins. Without a confirmation, what is left of an earlier takeover is forgotten. */
  begin(present: Present): void {
    const isFirst = this.#at === undefined;
    this.#at = present;
    this.#openSince = undefined;
    this.#completeSince = undefined;
    this.#failedSyncs = 0;
    if (this.#isAgain || present.config.takeover.how === 'none') this.#forget();
    else if (isFirst) this.#load();
    this.#isAgain = false;
    this.#isToRebuild = false;
    this.#tell();
  }

  /** See `SyncParts.beforeWrite`. */
  readonly beforeWrite = async (): Promise<ApplyReport | undefined> => {
    const at = this.#at;
    if (at === undefined || at.config.takeover.how === 'none') return undefined;
    // Asked again with each sync: the next generation may not have been built.
    if (this.#isAgain) return this.#again('the takeover of this node is about to begin anew');
    if (this.#isUnwritten) this.#persist();
    const state = this.#state;
    if (state === undefined) {
      const cause = await this.#open(at);
      if (cause !== undefined) return heldReport(cause);
    } else if (
      (this.isHeld || state.kind === 'no way back') &&
      state.kind !== 'going back' &&
      this.#isToldAgain(state)
    ) {
      this.#options.log.info('the takeover of this node is tried again');
      return this.#again('the takeover of this node is about to be tried again');
    } else if (this.isHeld) return heldReport(this.#heldText(state));
    else if (state.kind === 'confirmed' && this.#isOfEarlier && (await isUndone(at, state))) {
      this.#options.log.info(
        'another proxy wrote its rules, or the mode is another one, since the takeover was confirmed: it begins anew',
      );
      return this.#again('the takeover of this node is about to begin anew');
    }
    this.#isOfEarlier = false;
    this.#openSince ??= this.#options.clock.now();
    return undefined;
  };

  /** The rules of a mode that was built otherwise must not be written. */
  #again(why: string): ApplyReport {
    this.#isAgain = true;
    this.#options.onAgain();
    return heldReport(why);
  }

  /** A sync of this generation ended. A Service that the kernel refuses is no reason to go back: it stays as the predecessor had it. */
  synced(report: Pick<SyncReport, 'outcome' | 'failed'>): void {
    if (this.#isToRebuild) this.#options.onAgain();
    if (this.#state?.kind !== 'open' || this.#at === undefined) return;
    const { model, onNode } = this.#at.agent;
    const { causes } = syncOutcomeOf(report, onNode.families, () => model.ports.keys());
    const [cause] = causes.values();
    this.#incomplete = firstLine(cause ?? '');
    this.#failedSyncs = cause === undefined ? 0 : this.#failedSyncs + 1;
    if (cause === undefined) this.#completeSince ??= this.#options.clock.now();
  }

  /**
   * Check until the takeover is decided, and then until the signal aborts. `request` asks for a sync. Rejects only when the signal aborts.
   */
  async watch(signal: AbortSignal, request: () => void): Promise<void> {
    const at = this.#at;
    if (at === undefined || at.config.takeover.how === 'none') return await aborted(signal);
    if (this.#state?.kind === 'going back') await this.#goBack(this.#state, { ...at, signal }, request);
    const trial = new Trial();
    let [isVerified, isLast] = [false, false];
    while (this.#state === undefined || this.#state.kind === 'open') {
      await sleep(this.#options.clock, ROUND_MS, signal);
      if (this.#state?.kind !== 'open' || this.#openSince === undefined) continue;
      const mustVerify = this.#completeSince !== undefined && (!isVerified || isLast);
      const findings = await this.#findings(at, { sample: this.#state.sample, mustVerify }, signal);
      const cause = trial.round(findings) ?? this.#unwrittenFor(at);
      if (cause !== undefined) await this.#goBack(this.#fail(cause, at), { ...at, signal }, request);
      else if (isLast && findings.size === 0 && this.#failedSyncs === 0) this.#confirm(at);
      isVerified ||= mustVerify && !findings.has('verify');
      isLast = this.#isOver(at);
    }
    await aborted(signal);
  }

  /** The window is over: the next round may be the last one. */
  #isOver({ config: { takeover } }: Present): boolean {
    return this.#completeSince !== undefined && this.#options.clock.now() - this.#completeSince >= takeover.window;
  }

  /** Why syncs did not write everything for long enough to go back; undefined where they did. */
  #unwrittenFor({ config: { takeover } }: Present): string | undefined {
    if (this.#failedSyncs >= FAILED_SYNCS)
      return `${FAILED_SYNCS} syncs in a row were not complete: ${this.#incomplete}`;
    if (this.#completeSince !== undefined || this.#openSince === undefined) return undefined;
    if (this.#options.clock.now() - this.#openSince < takeover.window) return undefined;
    return `no sync was complete within ${takeover.window / 1000} s: ${this.#incomplete || 'none has ended'}`;
  }

  /** Keeps what a predecessor has. Resolves with the reason why nothing may be written yet. */
  async #open({ agent, config, keepsTables, signal }: Present): Promise<string | undefined> {
    const { platform, log } = this.#options;
    // Its predecessor would be removed for good.
    if (!keepsTables) {
      this.#again('');
      return 'the takeover of this node is about to begin anew';
    }
    const kept = await keep(keepingInput({ agent, config, signal }, platform));
    if (isNothing(kept)) {
      this.#set({ kind: 'confirmed', mode: config.mode });
      this.#tell();
      this.#options.onDecided(config);
      return undefined;
    }
    const sample = await sampleNow(agent.feed.cache, platform.process.datapath, Math.random);
    try {
      this.#record.keep(kept);
      this.#record.write({ kind: 'open', sample });
    } catch (error) {
      return `nothing is written, because what is in the kernel cannot be kept: ${causeOf(error)}`;
    }
    this.#state = { kind: 'open', sample };
    const text = `the takeover of this node began: what is in the kernel is kept until ${config.takeover.window / 1000} s of checks are over`;
    log.info({ sample: sample.length }, text);
    this.#tell(text);
    return undefined;
  }

  async #findings(
    { agent }: Pick<Present, 'agent'>,
    { sample, mustVerify }: Pick<Open, 'sample'> & { readonly mustVerify: boolean },
    signal: AbortSignal,
  ): Promise<Findings> {
    const { datapath, platform, unhealthy, verify } = this.#options;
    const findings = new Map<string, string>();
    if (this.#completeSince === undefined) return findings;
    const [reason] = unhealthy();
    if (reason !== undefined) findings.set('health', `the agent is not healthy: ${reason}`);
    for (const result of await datapath.check(agent.onNode.families))
      if (result.kind === 'failed') findings.set(`packets ${result.from} ${result.family}`, result.text);
    for (const [service, text] of await lostServices(sample, agent.feed.cache, platform.process.datapath))
      findings.set(`Service ${service}`, text);
    if (mustVerify) {
      const differs = await this.#differences(verify, signal);
      if (differs !== undefined) findings.set('verify', differs);
    }
    return findings;
  }

  async #differences(verify: TakeoverOptions['verify'], signal: AbortSignal): Promise<string | undefined> {
    try {
      const { differences } = await verify(signal);
      // Others wait for connections to end, or for the next sync, or the kernel refuses them.
      const faults = differences.filter(({ because }) => because === '');
      if (faults.length === 0) return undefined;
      return `the kernel differs from what was written: ${firstOf(
        faults.map(({ object }) => object),
        MAX_NAMED,
      )}`;
    } catch (error) {
      if (signal.aborted) throw error;
      return `the kernel cannot be verified: ${causeOf(error)}`;
    }
  }

  /** The next generation removes what the predecessor has, as after any takeover. */
  #confirm({ config }: Present): void {
    this.#set({ kind: 'confirmed', mode: config.mode });
    const text =
      'the takeover of this node is confirmed: its checks passed, and what was kept of the predecessor is removed';
    this.#options.log.info(text);
    this.#tell(text);
    this.#isToRebuild = true;
    this.#options.onAgain();
  }

  #fail(cause: string, { agent }: Pick<Present, 'agent'>): Failed {
    const told = { version: version(), annotation: agent.feed.node()?.takeover };
    const state: Failed = { kind: 'going back', cause, at: this.#options.clock.wall(), told };
    this.#set(state);
    const text = `the takeover of this node failed: ${cause}; the rules that were there before come back`;
    this.#options.log.error(text);
    this.#tell(text);
    return state;
  }

  /** Tries until what was kept is in the kernel again. From the first try on, no sync writes. */
  async #goBack(failed: Failed, at: Present, request: () => void): Promise<void> {
    const { clock, log, platform } = this.#options;
    const { agent, signal } = at;
    const input = keepingInput(at, platform);
    let isWaiting = false;
    for (let lastCause = ''; ; ) {
      try {
        const kept = this.#record.kept();
        const back = kept === undefined ? 'gone' : await agent.kernelLock.between(() => bringBack(kept, input));
        if (back === 'gone') {
          this.#noWayBack(failed);
          this.#options.onDecided(at.config);
          return request();
        }
        isWaiting = back === 'waiting';
        break;
      } catch (error) {
        if (signal.aborted) throw error;
        const cause = causeOf(error);
        if (cause !== lastCause)
          log.error(`the rules that were there before cannot be written yet: ${cause}; trying again`);
        lastCause = cause;
        await sleep(clock, RETRY_MS, signal);
      }
    }
    this.#set({ ...failed, kind: 'went back' });
    agent.loop.distrust();
    log.error('the rules that were there before are back, and this agent writes nothing');
    this.#tell();
    this.#options.onDecided(at.config);
    // It fails, and health says why.
    request();
    // Servers of this agent take no new connections, and go with their last one.
    while (isWaiting) {
      await sleep(clock, WAITING_MS, signal);
      isWaiting = await agent.kernelLock
        .between(() => removeServersLeft(input))
        .catch((error) => {
          if (signal.aborted) throw error;
          log.warn(`servers of the takeover that failed cannot be removed yet: ${causeOf(error)}`);
          return true;
        });
    }
  }

  /** Another program removed what was kept: the agent's rules are all that serves. */
  #noWayBack(failed: Failed): void {
    this.#set({ ...failed, kind: 'no way back' });
    const text = `the takeover of this node failed: ${failed.cause}; what was kept of the rules before is gone, so this agent goes on`;
    this.#options.log.error(text);
    this.#tell(text);
  }

  #tell(news?: string): void {
    const state = this.#state;
    const isNoReason = state === undefined || state.kind === 'confirmed';
    const unready = isNoReason ? undefined : this.#heldText(state);
    this.#options.onStage({ stage: stageOf(state), unready, news });
  }

  #load(): void {
    if (this.#isLoaded) return;
    this.#isLoaded = true;
    try {
      this.#state = this.#record.read();
      this.#isOfEarlier = this.#state?.kind === 'confirmed';
    } catch (error) {
      this.#state = { kind: 'unreadable', cause: causeOf(error) };
    }
  }

  #forget(): void {
    this.#isLoaded = true;
    this.#state = undefined;
    this.#isUnwritten = false;
    try {
      this.#record.clear();
    } catch (error) {
      this.#options.log.warn(`the record of an earlier takeover cannot be removed: ${causeOf(error)}`);
    }
  }

  /** The takeover goes on whether or not the record can be written, which is for the next process. */
  #set(state: TakeoverState): void {
    this.#state = state;
    this.#persist();
  }

  #persist(): void {
    const state = this.#state;
    if (state === undefined || state.kind === 'unreadable') return;
    try {
      this.#record.write(state);
      this.#isUnwritten = false;
    } catch (error) {
      if (!this.#isUnwritten)
        this.#options.log.warn(
          `the record of the takeover cannot be written: ${causeOf(error)}; it is tried again with each sync`,
        );
      this.#isUnwritten = true;
    }
  }

  /** The record is removed, the Node has another annotation, or this is another version. */
  #isToldAgain(state: TakeoverState | Unreadable): boolean {
    try {
      if (!this.#isUnwritten && this.#record.read() === undefined) return true;
    } catch {
      // It is there.
    }
    return 'told' in state && this.#isToldByOthers(state.told);
  }

  /** While the Node is not known, its annotation is no other one. */
  #isToldByOthers({ version: before, annotation }: ToldBefore): boolean {
    const node = this.#at?.agent.feed.node();
    return before !== version() || (node !== undefined && node.takeover !== annotation);
  }

  /** Why nothing is written, or why the agent is not ready, and what to do. */
  #heldText(state: TakeoverState | Unreadable): string {
    const { path } = this.#record;
    if (state.kind === 'unreadable')
      return `nothing is written, because the record of a takeover cannot be read: ${state.cause}. Remove ${path} to begin anew.`;
    if (!('told' in state)) return UNCONFIRMED;
    const what = `the takeover of this node failed at ${new Date(state.at).toISOString()}: ${state.cause}.`;
    if (state.kind === 'going back') return `${what} The rules that were there before come back.`;
    if (state.kind === 'no way back')
      return `${what} What was kept of the rules before is gone, so this agent goes on. Remove ${path} to have it confirmed anew.`;
    return `${what} The rules that were there before are back, and nothing is written. To try again, remove ${path}, change the annotation ${TAKEOVER_ANNOTATION} of the Node, or start another version.`;
  }
}

/** Whether a confirmation of an earlier process means nothing any more: another proxy has rules here now, or the mode is another one. */
async function isUndone(
  { agent, config, signal }: Present,
  { mode }: Extract<TakeoverState, { readonly kind: 'confirmed' }>,
): Promise<boolean> {
  if (mode !== config.mode) return true;
  // Virtual servers of the confirmed takeover may wait for their last connections.
  return (await agent.onNode.otherProxies(signal)).some(({ stays, mayDrain = false }) => stays && !mayDrain);
}

function stageOf(state: TakeoverState | Unreadable | undefined): TakeoverStage {
  switch (state?.kind) {
    case undefined:
    case 'unreadable':
      return 'none';
    case 'open':
    case 'no way back':
      return 'open';
    case 'confirmed':
      return 'confirmed';
    case 'going back':
    case 'went back':
      return 'went back';
  }
}

function heldReport(cause: string): ApplyReport {
  return failedReport({ key: 'the takeover', family: undefined, kind: 'kernel' }, cause);
}

function keepingInput(
  { agent, config, signal }: { readonly agent: Agent; readonly config: Config; readonly signal: AbortSignal },
  platform: Platform,
): KeepingInput {
  return { config, node: agent.feed.node, platform, signal };
}
