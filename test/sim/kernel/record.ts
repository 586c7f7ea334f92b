/** A record of a simulated machine: a file in memory that outlives the processes. */
import type { RecordFile } from '../../../src/kernel/record-file.ts';
import type { SimProcess } from '../engine/process.ts';
import { fileFailure } from './failures.ts';

/** Simulated agents take over without a confirmation. */
export const NO_RECORD: RecordFile = {
  path: () => '',
  place: () => '',
  read: () => undefined,
  write: () => {
    throw new Error('nothing keeps this file');
  },
  remove: () => false,
};

export class SimRecord {
  /** undefined: there is none. */
  text: string | undefined;
  /** Another one is that of another boot, or another network namespace. */
  place = 'the only boot';
  readonly #path: string;

  constructor(name: string) {
    this.#path = `/run/slicewire/${name}`;
  }

  file(process: SimProcess): RecordFile {
    const path = this.#path;
    const call = <T>(kind: 'read' | 'write' | 'open', effect: () => T) =>
      process.callSync<T>({
        what: `${kind} ${path}`,
        effect,
        fail: (variant) => {
          throw fileFailure(path, kind, variant);
        },
      });
    return {
      path: () => path,
      place: () => this.place,
      read: () => call('read', () => this.text),
      write: (text) =>
        call('write', () => {
          this.text = text;
        }),
      remove: () =>
        call('open', () => {
          const isThere = this.text !== undefined;
          this.text = undefined;
          return isThere;
        }),
    };
  }
}
