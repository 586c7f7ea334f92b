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
import { bringBack, isNothing, type KeepingInput, keep, letGo } from './keeping.ts';
import { lostServices, sampleNow } from './sample.ts';
import { TakeoverRecord, type TakeoverState, type ToldBefore } from './takeover-record.ts';
import { type CheckName, type Findings, Trial } from './trial.ts';

/** Milliseconds between two rounds of checks. */
const ROUND_MS = 1000;
/** Milliseconds until a way back that failed is tried again. */
const RETRY_MS = 1000;
/** Milliseconds between two looks whether the connections of servers have ended. */
const WAITING_MS = 5000;
/** Limit of differences and Services that a cause names. */
const MAX_NAMED = 3;

/** The stages for people and metrics: `none` where no confirmation is asked for, or nothing was written yet. */
export const STAGES = ['none', 'open', 'confirmed', 'went back'] as const;
export type TakeoverStage = (typeof STAGES)[number];

/** How far the takeover is. */
export interface TakeoverAt {
  readonly stage: TakeoverStage;
  /** Why the agent is not ready, as a sentence; undefined where the takeover is no reason. */
  readonly unready: string | undefined;
  /** What just happened, as a sentence; undefined for the stage in which an earlier process left the takeover. */
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
  /** Requests another generation of the agent. */
  readonly onAgain: () => void;
}

const UNCONFIRMED = 'the takeover of this node is not confirmed yet: the agent checks whether its rules serve';

export class Takeover {
  readonly #options: TakeoverOptions;
  readonly #record: TakeoverRecord;
  #state: TakeoverState | undefined;
  #at: Present | undefined;
  /** The first write of this process, and the first sync since then that was complete; on the monotonic clock. */
  #openSince: number | undefined;
  #completeSince: number | undefined;
  /** Why the last sync was not complete. */
  #incomplete: string | undefined;

  constructor(options: TakeoverOptions) {
    this.#options = options;
    this.#record = new TakeoverRecord(options.platform.kernel.takeover);
  }

  /** Whether tables of nftables of a predecessor stay, dormant. Reads the record. */
  keepsTables(config: Config): boolean {
    if (config.takeover.how === 'none') return false;
    this.#state = this.#record.read();
    return this.#state === undefined || this.#state.kind === 'open';
  }

  /** Another generation of the agent begins. Without a confirmation, what is left of an earlier takeover is forgotten. */
  begin(agent: Agent, config: Config, signal: AbortSignal): void {
    this.#at = { agent, config, signal };
    this.#completeSince = undefined;
    if (config.takeover.how === 'none') this.#forget();
    else this.#state = this.#record.read();
    this.#tell();
  }

  get #stage(): TakeoverStage {
    const { kind } = this.#state ?? { kind: 'none' };
    return kind === 'going back' ? 'went back' : kind;
  }

  #tell(news?: string): void {
    const state = this.#state;
    const isHeld = state?.kind === 'going back' || state?.kind === 'went back';
    const held = isHeld
      ? `the takeover of this node failed at ${timeOf(state)}: ${state.cause}. ${this.#remedy(state)}`
      : undefined;
    this.#options.onStage({ stage: this.#stage, unready: state?.kind === 'open' ? UNCONFIRMED : held, news });
  }

  /** See `SyncParts.beforeWrite`. */
  readonly beforeWrite = async (): Promise<ApplyReport | undefined> => {
    if (this.#at === undefined || this.#at.config.takeover.how === 'none') return undefined;
    const state = this.#state;
    if (state === undefined) await this.#open(this.#at);
    else if (state.kind === 'going back' || state.kind === 'went back') {
      if (state.kind === 'going back' || !this.#isToldAgain(state.told))
        return heldReport(
          `nothing is written, because the takeover of this node failed at ${timeOf(state)}. ${this.#remedy(state)}`,
        );
      this.#forget();
      this.#options.log.info('the takeover of this node is tried again');
      this.#options.onAgain();
      return heldReport('the takeover of this node is about to be tried again');
    }
    this.#openSince ??= this.#options.clock.now();
    return undefined;
  };

  /** A sync of this generation ended. */
  synced({ outcome, failed }: Pick<SyncReport, 'outcome' | 'failed'>): void {
    if (this.#state?.kind !== 'open') return;
    if (outcome === 'complete') this.#completeSince ??= this.#options.clock.now();
    this.#incomplete = outcome === 'complete' ? undefined : firstLine(failed[0]?.cause ?? 'not all was written');
  }

  /**
   * Check until the takeover is decided, and then until the signal aborts. `request` asks for a sync. Rejects when the signal aborts, and when the
   * record cannot be written.
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
      const cause = trial.round(findings);
      if (cause !== undefined) {
        await this.#goBack(this.#goingBack(cause, at), { ...at, signal }, request);
      } else if (isLast && trial.isClean) this.#confirm(at);
      isVerified ||= mustVerify && !findings.has('verify');
      isLast = this.#isOver(at.config);
    }
    await aborted(signal);
  }

  /** The window is over: the next round is the last one. */
  #isOver({ takeover }: Config): boolean {
    return this.#completeSince !== undefined && this.#options.clock.now() - this.#completeSince >= takeover.window;
  }

  async #open({ agent, config, signal }: Present): Promise<void> {
    const { platform, log } = this.#options;
    const kept = await keep(keepingInput({ agent, config, signal }, platform));
    if (isNothing(kept)) {
      this.#set({ kind: 'confirmed' });
      this.#tell();
      return;
    }
    const sample = await sampleNow(agent.feed.cache, platform.process.datapath, Math.random);
    this.#record.keep(kept);
    this.#set({ kind: 'open', sample });
    const text = `the takeover of this node began: what is in the kernel is kept until ${config.takeover.window / 1000} s of checks are over`;
    log.info({ sample: sample.length }, text);
    this.#tell(text);
  }

  async #findings(
    { agent, config }: Pick<Present, 'agent' | 'config'>,
    {
      sample,
      mustVerify,
    }: { readonly sample: Extract<TakeoverState, { kind: 'open' }>['sample']; readonly mustVerify: boolean },
    signal: AbortSignal,
  ): Promise<Findings> {
    const { clock, datapath, platform, unhealthy, verify } = this.#options;
    const findings = new Map<CheckName, string>();
    if (this.#completeSince === undefined) {
      const waited = clock.now() - (this.#openSince ?? clock.now());
      if (waited >= config.takeover.window)
        findings.set(
          'sync',
          `no sync was complete within ${config.takeover.window / 1000} s: ${this.#incomplete ?? 'none has ended'}`,
        );
      return findings;
    }
    if (this.#incomplete !== undefined) findings.set('sync', `a sync was not complete: ${this.#incomplete}`);
    const [reason] = unhealthy();
    if (reason !== undefined) findings.set('health', `the agent is not healthy: ${reason}`);
    for (const result of await datapath.check(agent.onNode.families))
      if (result.kind === 'failed') findings.set('packets', result.text);
    const lost = await lostServices(sample, agent.feed.cache, platform.process.datapath);
    if (lost.length > 0) findings.set('services', firstOf(lost, MAX_NAMED));
    if (mustVerify) {
      const differs = await this.#differences(verify, signal);
      if (differs !== undefined) findings.set('verify', differs);
    }
    return findings;
  }

  async #differences(verify: TakeoverOptions['verify'], signal: AbortSignal): Promise<string | undefined> {
    try {
      const { differences, count } = await verify(signal);
      if (count === 0) return undefined;
      return `the kernel differs from what was written: ${firstOf(
        differences.map(({ object }) => object),
        MAX_NAMED,
      )}`;
    } catch (error) {
      if (signal.aborted) throw error;
      return `the kernel cannot be verified: ${causeOf(error)}`;
    }
  }

  #confirm({ agent, config, signal }: Present): void {
    const { platform, log } = this.#options;
    const kept = this.#record.kept();
    this.#set({ kind: 'confirmed' });
    const text =
      'the takeover of this node is confirmed: its checks passed, and what was kept of the predecessor is removed';
    try {
      if (kept !== undefined) letGo(kept, keepingInput({ agent, config, signal }, platform));
    } catch (error) {
      log.warn(
        `tables of the predecessor stay in the kernel, dormant: ${causeOf(error)}; slicewire cleanup removes them`,
      );
    }
    log.info(text);
    this.#tell(text);
  }

  #goingBack(cause: string, { agent }: Pick<Present, 'agent'>): Going {
    const told = { version: version(), annotation: agent.feed.node()?.takeover ?? '' };
    const state: Going = { kind: 'going back', cause, at: this.#options.clock.wall(), told };
    this.#set(state);
    this.#options.log.error(`the takeover of this node failed: ${cause}; the rules that were there before come back`);
    return state;
  }

  /** Tries until what was kept is in the kernel again. From the first try on, no sync writes. */
  async #goBack(going: Going, at: Present, request: () => void): Promise<void> {
    const { clock, log, platform } = this.#options;
    const { agent, signal } = at;
    const kept = this.#record.kept();
    if (kept === undefined) {
      log.error('what was kept of the predecessor is gone: the rules of this agent stay, and are not written any more');
    }
    const again = async () =>
      kept !== undefined && (await agent.kernelLock.between(() => bringBack(kept, keepingInput(at, platform))));
    let isWaiting = false;
    for (let lastCause = ''; ; ) {
      try {
        isWaiting = await again();
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
    this.#set({ ...going, kind: 'went back' });
    agent.loop.distrust();
    log.error('the rules that were there before are back, and this agent writes nothing');
    this.#tell(`the takeover of this node failed, and the rules that were there before are back: ${going.cause}`);
    // It fails, and health says why.
    request();
    // Servers of this agent take no new connections, and go with their last one.
    while (isWaiting) {
      await sleep(clock, WAITING_MS, signal);
      isWaiting = await again().catch((error) => {
        if (signal.aborted) throw error;
        log.warn(`servers of the takeover that failed cannot be removed yet: ${causeOf(error)}`);
        return true;
      });
    }
  }

  #forget(): void {
    this.#record.clear();
    this.#state = undefined;
    this.#openSince = undefined;
  }

  /** Throws when the record cannot be written: then nothing else may be. */
  #set(state: TakeoverState): void {
    this.#record.write(state);
    this.#state = state;
  }

  /** The record is removed, the Node has another annotation, or this is another version. */
  #isToldAgain({ version: before, annotation }: ToldBefore): boolean {
    return (
      before !== version() ||
      annotation !== (this.#at?.agent.feed.node()?.takeover ?? '') ||
      this.#record.read() === undefined
    );
  }

  /** What follows from a way back that is complete or not, and what to do. */
  #remedy({ kind }: Going): string {
    if (kind === 'going back') return 'The rules that were there before come back.';
    return `The rules that were there before are back. To try again, remove ${this.#record.path}, change the annotation ${TAKEOVER_ANNOTATION} of the Node, or start another version.`;
  }
}

/** The generation of the agent that works now. */
interface Present {
  readonly agent: Agent;
  readonly config: Config;
  readonly signal: AbortSignal;
}

type Going = Extract<TakeoverState, { readonly kind: 'going back' | 'went back' }>;

function timeOf({ at }: Going): string {
  return new Date(at).toISOString();
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
