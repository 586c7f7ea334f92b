/**
 * How far the takeover of this node is, in files that outlive the process: one for the state, and one for what the predecessor had, which is large
 * and needed only for the way back. Both are gone after the next boot, and so are the rules of the predecessor.
 */
import type { RecordFile } from '../../kernel/record-file.ts';
import type { ModeName } from '../../proxy/model/modes.ts';
import type { TableId } from '../../proxy/modes/nftables/index.ts';
import type { KeptRules, KeptServers } from '../../proxy/modes/way-back/kept.ts';

/** The state of a predecessor in the kernel. */
export interface Kept {
  readonly rules: readonly KeptRules[];
  /** Empty where nothing was balanced by virtual servers. */
  readonly servers: readonly KeptServers[];
  /** Tables of nftables, which stay in the kernel. */
  readonly tables: readonly TableId[];
}

/** A Service that answered before the takeover. `endpoints`: a digest of those that were ready. */
export interface Sampled {
  readonly service: string;
  readonly address: string;
  readonly port: number;
  readonly endpoints: string;
}

/** Version and annotation at the time when the agent went back: any other value tells it to try again. */
export interface ToldBefore {
  readonly version: string;
  /** Of the Node; undefined without one. */
  readonly annotation?: string | undefined;
}

export type TakeoverState =
  /** The predecessor's state is kept, rules are written, and nothing is confirmed yet. */
  | { readonly kind: 'open'; readonly sample: readonly Sampled[] }
  /**
   * `going back`: not all of the predecessor's state is in the kernel again. `no way back`: what was kept of it is gone. `at`: milliseconds since
   * 1970.
   */
  | {
      readonly kind: 'going back' | 'went back' | 'no way back';
      readonly cause: string;
      readonly at: number;
      readonly told: ToldBefore;
    }
  | { readonly kind: 'confirmed'; readonly mode: ModeName };

export interface TakeoverFiles {
  readonly state: RecordFile;
  readonly kept: RecordFile;
}

/** Bytes of the longest file with what a predecessor had: 10,000 Services of 20 endpoints in iptables mode take some 70 MB. */
export const KEPT_ROOM = 512 * 1024 * 1024;

/** The version of the files' form. */
const FORMAT = 1;

export class TakeoverRecord {
  readonly #files: TakeoverFiles;

  constructor(files: TakeoverFiles) {
    this.#files = files;
  }

  /** The file of the state, for people. */
  get path(): string {
    return this.#files.state.path();
  }

  /** undefined where no takeover began since the boot. Throws when the file cannot be read. */
  read(): TakeoverState | undefined {
    return this.#content<TakeoverState>(this.#files.state);
  }

  /** Throws when it cannot be written. */
  write(state: TakeoverState): void {
    this.#write(this.#files.state, state);
    if (state.kind !== 'open' && state.kind !== 'going back') this.#files.kept.remove();
  }

  /** Throws when they cannot be removed. */
  clear(): void {
    this.#files.state.remove();
    this.#files.kept.remove();
  }

  /** Throws when it cannot be written. */
  keep(kept: Kept): void {
    this.#write(this.#files.kept, kept);
  }

  /** undefined where the file is gone. Throws when it cannot be read. */
  kept(): Kept | undefined {
    return this.#content<Kept>(this.#files.kept);
  }

  #write(file: RecordFile, value: object): void {
    file.write(JSON.stringify({ format: FORMAT, place: file.place(), value }));
  }

  /** Only root can have written it, so its form is trusted. Another boot or namespace has another state. */
  #content<T>(file: RecordFile): T | undefined {
    const text = file.read();
    if (text === undefined) return undefined;
    const { format, place, value } = JSON.parse(text) as { format: number; place: string; value: T };
    return format === FORMAT && place === file.place() ? value : undefined;
  }
}
