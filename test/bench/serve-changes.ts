/** The changes that both API servers of the benchmark make on command (`server-protocol.ts`). */
import { setTimeout as pause } from 'node:timers/promises';
import { type ClusterShape, churnStep, lastAddress, sliceCount, sliceOf } from './cluster.ts';
import { obey } from './inside.ts';
import type { Churn, ServerAnswer, ServerCommand, SliceChange } from './server-protocol.ts';

export interface ChangesInput {
  readonly shape: ClusterShape;
  readonly kubeconfig: string;
  /** Writes a slice; returns its moment (`SliceChange.at`). */
  readonly write: (slice: object) => number | Promise<number>;
  readonly stop: () => Promise<void>;
}

/** Obey commands until the parent ends this process. */
export function serveChanges({ shape, kubeconfig, write, stop }: ChangesInput): void {
  /** The last endpoint is in the last slice. */
  async function put(n: number, turn: number): Promise<SliceChange> {
    const slice = sliceOf(shape, n, sliceCount(shape, n) - 1, { turn, changedAt: new Date().toISOString() });
    return { n, address: lastAddress(shape, n, { turn }), at: await write(slice) };
  }

  /** Each change has its moment: what comes late does not move the others, and none waits for the write of the one before. */
  async function churn({ perSecond, seconds, turn }: Churn): Promise<SliceChange[]> {
    const changes: Promise<SliceChange>[] = [];
    const start = performance.now();
    for (let i = 0; i < perSecond * seconds; i++) {
      const early = start + (i * 1000) / perSecond - performance.now();
      if (early > 0) await pause(early);
      const step = churnStep(shape, i, turn);
      const change = put(step.n, step.turn);
      // A failure is told once all are written.
      change.catch(() => undefined);
      changes.push(change);
    }
    return await Promise.all(changes);
  }

  async function carryOut(command: ServerCommand): Promise<readonly SliceChange[]> {
    switch (command.kind) {
      case 'ready':
        return [];
      case 'put':
        return [await put(command.n, command.turn)];
      case 'churn':
        return await churn(command);
    }
  }

  obey<ServerCommand, ServerAnswer>(async (command) => ({ changes: await carryOut(command), kubeconfig }), stop);
}
