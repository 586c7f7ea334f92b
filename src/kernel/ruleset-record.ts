/**
 * The record of slicewire's tables that an agent leaves for the next process: a digest of each table, with the ruleset generation at which
 * the table had this content. It saves the reading of the tables, and nothing else depends on it. It is never trusted alone: a table counts
 * as known only while the kernel's generation and the table's handle are those of the record, and when the digest is that of the desired
 * table. A kill between a transaction and its record leaves an older generation, so that the table is read.
 */
import { randomBytes } from 'node:crypto';
import { FAMILIES, type Family } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import type { LeftTable, TableLabels } from './nftables-kernel.ts';
import type { RecordFile } from './record-file.ts';

/** The record, as a mode uses it. */
export interface TableRecord {
  /** The secret key of the digests (proxy/modes/nft-table/digest.ts). */
  readonly key: string;
  /** The table as an agent left it, if no program has written to the ruleset since; undefined where it is not known. */
  left(family: Family): LeftTable | undefined;
  /** Makes the table count as read at the time when it was left. */
  believe(family: Family, left: LeftTable): void;
  /** Records that the table, as it was last read or written, has this digest. */
  keep(family: Family, digest: string): void;
}

export interface RulesetRecordOptions {
  readonly file: RecordFile;
  readonly labels: TableLabels;
  /** The version of slicewire: another one may write other tables. */
  readonly version: string;
  /** Called once for each reason why there is no record. */
  readonly onProblem: (text: string) => void;
}

/** The version of the file's form. */
const FORMAT = 1;
const KEY_BYTES = 8;

interface Content {
  readonly key: string;
  readonly tables: ReadonlyMap<Family, LeftTable>;
}

export class RulesetRecord implements TableRecord {
  readonly #options: RulesetRecordOptions;
  readonly #problems = new Set<string>();
  #content: Content | undefined;
  #place: string | undefined;
  #written = '';

  constructor(options: RulesetRecordOptions) {
    this.#options = options;
  }

  get key(): string {
    return this.#read().key;
  }

  left(family: Family): LeftTable | undefined {
    const left = this.#read().tables.get(family);
    try {
      return left !== undefined && this.#options.labels.isAsLeft(family, left) ? left : undefined;
    } catch (error) {
      // The reading of the ruleset fails for the same reason, and reports it.
      this.#problem(`the record of the ruleset is not used, so that the ruleset is read: ${causeOf(error)}`);
      return undefined;
    }
  }

  believe(family: Family, left: LeftTable): void {
    this.#options.labels.believe(family, left);
  }

  keep(family: Family, digest: string): void {
    const { file, labels, version } = this.#options;
    const { key } = this.#read();
    labels.label(family, digest);
    if (this.#place === undefined) return;
    const text = textOf({ key, tables: labels.labelled }, { place: this.#place, version });
    if (text === this.#written) return;
    try {
      file.write(text);
      this.#written = text;
    } catch (error) {
      this.#problem(`the state of the ruleset cannot be put on record, so the next start reads it: ${causeOf(error)}`);
    }
  }

  /** The record of the last agent; a new key and no tables where there is none. */
  #read(): Content {
    this.#content ??= this.#found() ?? { key: randomBytes(KEY_BYTES).toString('hex'), tables: new Map() };
    return this.#content;
  }

  #found(): Content | undefined {
    const { file, version } = this.#options;
    try {
      const place = file.place();
      this.#place = place;
      const text = file.read();
      return text === undefined ? undefined : contentOf(text, { place, version });
    } catch (error) {
      this.#problem(`the record of the ruleset is not used, so that the ruleset is read: ${causeOf(error)}`);
      return undefined;
    }
  }

  #problem(text: string): void {
    if (this.#problems.has(text)) return;
    this.#problems.add(text);
    this.#options.onProblem(text);
  }
}

/** The place and the program that wrote a record. */
interface RecordOrigin {
  readonly place: string;
  readonly version: string;
}

function textOf({ key, tables }: Content, { place, version }: RecordOrigin): string {
  const entries = [...tables].map(([family, { handle, generation, digest }]) => [
    family,
    { handle: String(handle), generation, digest },
  ]);
  return `${JSON.stringify({ format: FORMAT, version, place, key, tables: Object.fromEntries(entries) })}\n`;
}

/** Throws when it is no record of this program at this place. */
function contentOf(text: string, { place, version }: RecordOrigin): Content {
  const { format, version: writer, place: where, key, tables } = objectIn(parsed(text), 'the record');
  if (format !== FORMAT) throw new Error(`its format is ${shown(format)}, and not ${FORMAT}`);
  if (writer !== version) throw new Error(`slicewire ${shown(writer)} wrote it, and this is ${version}`);
  if (where !== place) throw new Error('it is of another boot or network namespace');
  const ofFamilies = objectIn(tables, 'tables');
  const entries = FAMILIES.flatMap((family) => {
    const table = ofFamilies[family];
    return table === undefined ? [] : [[family, tableIn(table, family)] as const];
  });
  return { key: hexIn(key, 'key'), tables: new Map(entries) };
}

/** The parser's own error would quote the text, which contains the key. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('it is no JSON');
  }
}

function tableIn(value: unknown, family: Family): LeftTable {
  const { handle, generation, digest } = objectIn(value, family);
  if (typeof handle !== 'string' || !/^\d{1,20}$/.test(handle)) throw new Error(`${family} handle: ${shown(handle)}`);
  if (typeof generation !== 'number' || !Number.isSafeInteger(generation)) {
    throw new Error(`${family} generation: ${shown(generation)}`);
  }
  return { handle: BigInt(handle), generation, digest: hexIn(digest, `${family} digest`) };
}

function objectIn(value: unknown, what: string): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) throw new Error(`${what} is no object: ${shown(value)}`);
  return { ...value };
}

function hexIn(value: unknown, what: string): string {
  if (typeof value !== 'string' || !/^[0-9a-f]{16}$/.test(value))
    throw new Error(`${what} has no 16 hexadecimal digits`);
  return value;
}

/** A value for a message that expected another one. It is cut, and never a digest or a key, which do not belong into a log. */
function shown(value: unknown): string {
  return (JSON.stringify(value) ?? 'nothing').slice(0, MAX_SHOWN_LENGTH);
}

/** Characters of a value that a message shows. */
const MAX_SHOWN_LENGTH = 40;
