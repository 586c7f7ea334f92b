/**
 * The endpoints whose weights grow (slow start), in a file: an agent that restarts meanwhile goes on with them. Where the file cannot be used,
 * they have their whole weights after a restart, which is logged once.
 */
import { parseAddress } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import type { RecordFile } from '../kernel/record-file.ts';
import { MAX_RAMPS, type Ramp } from '../proxy/model/ramps.ts';
import type { Log } from '../telemetry/log.ts';

/** Bytes of the longest file: `MAX_RAMPS` with the longest names. */
export const RAMPS_ROOM = MAX_RAMPS * 256;

/** The file's content. Another version of the agent may have written it. */
interface Content {
  readonly place: string;
  readonly ramps: readonly Ramp[];
}

export class RampRecord {
  readonly #file: RecordFile;
  readonly #log: Log;
  #isTold = false;
  #isEmpty = true;

  constructor(file: RecordFile, log: Log) {
    this.#file = file;
    this.#log = log;
  }

  /** Those that an agent of this boot and this network namespace left; none where that is unknown. */
  read(): readonly Ramp[] {
    try {
      const text = this.#file.read();
      if (text === undefined) return [];
      this.#isEmpty = false;
      const { place, ramps } = JSON.parse(text) as Content;
      return place === this.#file.place() ? ramps.slice(0, MAX_RAMPS).filter(isRamp) : [];
    } catch (error) {
      this.#tell(`cannot be read: ${causeOf(error)}`);
      return [];
    }
  }

  /** Replaces the file; without endpoints there is none. */
  save(all: readonly Ramp[]): void {
    if (all.length === 0 && this.#isEmpty) return;
    try {
      if (all.length === 0) this.#file.remove();
      else this.#file.write(JSON.stringify({ place: this.#file.place(), ramps: all }));
      this.#isEmpty = all.length === 0;
    } catch (error) {
      this.#tell(`cannot be written: ${causeOf(error)}`);
    }
  }

  #tell(problem: string): void {
    if (this.#isTold) return;
    this.#isTold = true;
    this.#log.warn(
      `the record of endpoints with a slow start ${problem}; after a restart of the agent they have their whole weights at once`,
    );
  }
}

function isRamp({ service, address, since }: Ramp): boolean {
  return typeof service === 'string' && parseAddress(address) === address && Number.isFinite(since);
}
