/** Those who record more than fits into memory: files and streams. */

import type { PresentObjects } from './past-objects.ts';
import type { ChangeEntry, SyncRecord } from './records.ts';

/** A moment between two syncs. */
export interface RecordingStart {
  readonly objects: PresentObjects;
  /** The objects are in the kernel, except for changes that wait (`writtenState`). Otherwise the next sync writes all of them. */
  readonly isWritten: boolean;
}

export interface Sink {
  /** From now on all changes and syncs are passed on. Called again when another source replaces all objects. */
  begin(beginning: RecordingStart): void;
  change(entry: ChangeEntry): void;
  sync(record: SyncRecord): void;
}

export class Sinks {
  readonly #sinks = new Map<Sink, 'waits' | 'begun'>();
  readonly #now: () => RecordingStart | undefined;

  /** `now`: undefined in a sync, and before the first one. */
  constructor(now: () => RecordingStart | undefined) {
    this.#now = now;
  }

  /** It begins at the next moment between two syncs. */
  add(sink: Sink): void {
    this.#sinks.set(sink, 'waits');
    this.#beginWaiting();
  }

  remove(sink: Sink): void {
    this.#sinks.delete(sink);
  }

  /** All objects are other ones. */
  restart(): void {
    for (const sink of this.#sinks.keys()) this.#sinks.set(sink, 'waits');
    this.#beginWaiting();
  }

  change(entry: ChangeEntry): void {
    for (const [sink, state] of this.#sinks) if (state === 'begun') sink.change(entry);
  }

  sync(record: SyncRecord): void {
    for (const [sink, state] of this.#sinks) if (state === 'begun') sink.sync(record);
    this.#beginWaiting();
  }

  #beginWaiting(): void {
    for (const [sink, state] of this.#sinks) {
      const beginning = state === 'waits' ? this.#now() : undefined;
      if (beginning === undefined) continue;
      this.#sinks.set(sink, 'begun');
      sink.begin(beginning);
    }
  }
}
