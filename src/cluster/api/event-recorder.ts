/**
 * Events for `kubectl describe` (events.k8s.io/v1). Events are hints: they are written one after another, beside all other
 * work, and dropped when there are too many or the API server refuses them.
 */
import { type Clock, sleep } from '../../base/clock.ts';
import { TokenBucket } from '../../base/token-bucket.ts';
import { type ApiClient, apiClient, isNamespaceLeaving } from './client.ts';
import { type ClusterConfig, loadCredentials } from './credentials.ts';
import type { Connect } from './transport.ts';

export interface ClusterEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly action: string;
  readonly note: string;
  readonly regarding: Regarding;
}

export interface Regarding {
  readonly apiVersion: string;
  readonly kind: string;
  /** "" for an object of the cluster, such as a Node. */
  readonly namespace: string;
  readonly name: string;
  /** `kubectl describe` finds events by the uid. */
  readonly uid?: string | undefined;
}

export interface RecorderOptions {
  readonly cluster: ClusterConfig;
  readonly connect?: Connect;
  readonly userAgent: string;
  /** The program and its instance, for the fields reportingController and reportingInstance. */
  readonly reporter: { readonly controller: string; readonly instance: string };
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called when an event cannot be written; then not again until a write succeeds. */
  readonly onFailure: (error: Error) => void;
}

/** Milliseconds in which the same event is not written again. */
const REPEAT_AFTER_MS = 10 * 60 * 1000;
/** A burst of events, then one each 12 s, as in client-go's spam filter. */
const RATE = { burst: 25, refill: 12_000 };
const MAX_WAITING_EVENTS = 100;
/** The API's limit of characters of a note. */
const MAX_NOTE_LENGTH = 1024;

export class EventRecorder {
  readonly #options: RecorderOptions;
  readonly #waiting: ClusterEvent[] = [];
  /** Time of the last write of each event. */
  readonly #written = new Map<string, number>();
  #client: ApiClient | undefined;
  readonly #rate: TokenBucket;
  #isWriting = false;
  #hasFailed = false;
  #count = 0;

  constructor(options: RecorderOptions) {
    this.#options = options;
    this.#rate = new TokenBucket(RATE, options.clock.now());
  }

  /** Never waits, never throws. */
  emit(event: ClusterEvent): void {
    const now = this.#options.clock.now();
    const key = `${event.regarding.kind} ${event.regarding.namespace}/${event.regarding.name} ${event.reason} ${event.note}`;
    const before = this.#written.get(key);
    if ((before !== undefined && now - before < REPEAT_AFTER_MS) || this.#waiting.length >= MAX_WAITING_EVENTS) return;
    for (const [old, at] of this.#written) if (now - at >= REPEAT_AFTER_MS) this.#written.delete(old);
    this.#written.set(key, now);
    this.#waiting.push(event);
    if (!this.#isWriting) void this.#write();
  }

  async #write(): Promise<void> {
    const { clock, signal, onFailure } = this.#options;
    this.#isWriting = true;
    try {
      for (let event = this.#waiting.shift(); event !== undefined && !signal.aborted; event = this.#waiting.shift()) {
        await this.#waitForRate();
        try {
          this.#client ??= await this.#connect();
          const body = this.#object(event, clock.wall());
          await this.#client.write({ method: 'POST', path: pathOf(event), body }, signal);
          this.#hasFailed = false;
        } catch (error) {
          // The event would be deleted with its namespace.
          if (isNamespaceLeaving(error)) continue;
          if (!signal.aborted && !this.#hasFailed) onFailure(error as Error);
          this.#hasFailed = true;
        }
      }
    } catch {
      // The signal aborted during a wait.
    } finally {
      this.#isWriting = false;
    }
  }

  async #connect(): Promise<ApiClient> {
    const { cluster, userAgent, connect, signal } = this.#options;
    const client = apiClient(await loadCredentials(cluster), { userAgent, connect });
    signal.addEventListener('abort', () => client.close(), { once: true });
    return client;
  }

  async #waitForRate(): Promise<void> {
    const { clock, signal } = this.#options;
    while (!this.#rate.take(clock.now())) await sleep(clock, this.#rate.untilNext(clock.now()), signal);
  }

  #object({ type, reason, action, note, regarding }: ClusterEvent, wall: number): object {
    this.#count += 1;
    const { reporter } = this.#options;
    const { namespace, ...rest } = regarding;
    const unique = `${Math.floor(wall).toString(16)}${this.#count.toString(16).padStart(4, '0')}`;
    return {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { name: `${regarding.name.slice(0, 200)}.${unique}`, namespace: namespaceOf(regarding) },
      // The API requires microseconds.
      eventTime: new Date(wall).toISOString().replace(/Z$/, '000Z'),
      reportingController: reporter.controller,
      reportingInstance: reporter.instance.slice(0, 128),
      type,
      reason,
      action,
      note: note.slice(0, MAX_NOTE_LENGTH),
      regarding: { ...rest, ...(namespace === '' ? {} : { namespace }) },
    };
  }
}

/** Events of objects without a namespace are in `default`. */
function namespaceOf({ namespace }: Regarding): string {
  return namespace === '' ? 'default' : namespace;
}

function pathOf({ regarding }: ClusterEvent): string {
  return `/apis/events.k8s.io/v1/namespaces/${encodeURIComponent(namespaceOf(regarding))}/events`;
}
