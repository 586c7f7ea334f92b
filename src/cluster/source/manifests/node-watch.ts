/** Reads addresses and ports of this machine for the guard: when Services changed, and with each read of the whole folder. */

import { causeOf } from '../../../base/cause.ts';
import type { EventSink } from '../../../proxy/model/events.ts';
import { FaultList } from '../../api/decode/faults.ts';
import type { NodeGuard, NodeReader } from './node-guard.ts';
import { ManifestsUnusable } from './unusable.ts';

export interface NodeWatchOptions {
  readonly nodeName: string;
  readonly reader: NodeReader;
  readonly emit: EventSink;
}

export class NodeWatch {
  readonly #guard: NodeGuard;
  readonly #options: NodeWatchOptions;
  #isDue = true;
  #hasRead = false;
  #hasFault = false;
  #cause = '';

  constructor(guard: NodeGuard, options: NodeWatchOptions) {
    this.#guard = guard;
    this.#options = options;
  }

  /** Read the machine at the next judgement, even if no Service changed. */
  expire(): void {
    this.#isDue = true;
  }

  /** At the end of the start no Service may wait: without it, its rules would go. Throws ManifestsUnusable. */
  mustHaveJudged(): void {
    if (this.#guard.isWaiting) throw unusable(this.#cause);
  }

  /** Emit the judged Services. They wait while the machine cannot be read; throws ManifestsUnusable when the first read fails. */
  async judge(): Promise<void> {
    if (!this.#isDue && !this.#guard.isWaiting) return;
    const { reader, emit } = this.#options;
    try {
      this.#guard.setInterfaces(await reader.addresses());
      const listeners = this.#guard.needsListeners ? await reader.listeners() : [];
      for (const event of this.#guard.judge(listeners)) emit(event);
    } catch (error) {
      this.#report(causeOf(error));
      return;
    }
    this.#isDue = false;
    this.#hasRead = true;
    if (this.#hasFault) emit({ kind: 'faults', key: 'this node', faults: [] });
    this.#hasFault = false;
  }

  #report(cause: string): void {
    const { nodeName, emit } = this.#options;
    const problem = problemText(cause);
    if (!this.#hasRead) throw unusable(cause);
    this.#cause = cause;
    this.#hasFault = true;
    const faults = new FaultList('Node', nodeName);
    faults.leaveOut('', undefined, `${problem}; changed Services wait until they can be read`);
    emit({ kind: 'faults', key: 'this node', faults: faults.list });
  }
}

function problemText(cause: string): string {
  return `its addresses and the ports in use cannot be read: ${cause}`;
}

function unusable(cause: string): ManifestsUnusable {
  return new ManifestsUnusable(`this node: ${problemText(cause)}; --allow-node-address-ports turns this check off`);
}
