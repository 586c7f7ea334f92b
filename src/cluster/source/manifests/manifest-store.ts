/** Keeps the objects of each file, and emits each object as the first of its files defines it. Pure: files in, events out. */
import { dirname } from 'node:path';
import type { EventSink, SourceEvent, SourcePod } from '../../../proxy/model/events.ts';
import type { Fault } from '../../../proxy/model/objects.ts';
import { NODE_PORTS, type PortRange } from '../../../proxy/model/port-range.ts';
import { FaultList, isObjectName, objectKey } from '../../api/decode/checks.ts';
import type { ParsedFile, Value } from '../../documents/documents.ts';
import { admitted } from './admission.ts';
import { type DecodedManifest, goneOf, isKind, KINDS, lastGood, type ManifestKind } from './kinds.ts';
import type { NodeGuard } from './node-guard.ts';
import { ManifestProducer } from './producer.ts';

/** `Kind namespace/name`, Nodes without a namespace. */
type ObjectId = string;

export interface StoreOptions {
  /** Range of node ports; without it kube-apiserver's default. */
  readonly nodePorts?: PortRange;
  /** Judges Services before they are emitted. Without it all are emitted at once. */
  readonly guard?: NodeGuard | undefined;
}

/** The end of a message about a file that cannot be read. */
const STAYS = '; its former objects stay in force';
/** Limit of reported faults of shape of one file; further ones are counted. */
const MAX_FAULTS = 20;

type Decode = (kind: ManifestKind, key: string, object: unknown) => DecodedManifest;

/** Collects the objects of a file while it is read in batches, so that a large file does not block the event loop. */
export class FileDraft {
  readonly file: string;
  readonly objects = new Map<ObjectId, DecodedManifest>();
  readonly #faults: FaultList;
  /** Number of objects of any kind. */
  count = 0;
  readonly #decode: Decode;
  #more = 0;

  constructor(file: string, decode: Decode) {
    this.file = file;
    this.#decode = decode;
    this.#faults = new FaultList('file', file);
  }

  get faults(): readonly Fault[] {
    if (this.#more === 0) return this.#faults.list;
    const rest = new FaultList('file', this.file);
    rest.setAside('', '', `${this.#more} more of its objects cannot be used`);
    return [...this.#faults.list, ...rest.list];
  }

  readonly add = (values: readonly Value[]): void => {
    for (const { value } of values) this.#addObject(value);
  };

  #addObject(object: unknown): void {
    const at = `object ${++this.count}`;
    const { kind, apiVersion } = (object ?? {}) as { kind?: unknown; apiVersion?: unknown };
    if (typeof kind !== 'string') this.#refuse(`${at}: kind`, kind, 'must be the name of a kind, such as Service');
    // A folder may hold other kinds (Deployments, ConfigMaps).
    if (!isKind(kind)) return;
    const wanted = KINDS[kind].apiVersion;
    const key = objectKey(object);
    const id = `${kind} ${nameOf(kind, key ?? '')}`;
    if (apiVersion !== wanted) this.#refuse(`${at}: apiVersion`, apiVersion, `must be ${wanted} for ${articled(kind)}`);
    else if (key === undefined) {
      const { field, value, problem } = nameProblem(object);
      this.#refuse(`${at}: ${field}`, value, problem);
    } else if (this.objects.has(id))
      this.#refuse(at, id, 'is defined twice in this file; the first definition is used');
    else this.objects.set(id, this.#decode(kind, nameOf(kind, key), object));
  }

  #refuse(field: string, value: unknown, problem: string): void {
    if (this.#faults.list.length < MAX_FAULTS) this.#faults.setAside(field, value, problem);
    else this.#more++;
  }
}

export class ManifestStore {
  readonly #nodeName: string;
  readonly #nodePorts: PortRange;
  readonly #guard: NodeGuard | undefined;
  readonly #emit: EventSink;
  readonly #producer: ManifestProducer;
  /** Objects by file, decoded: the API objects themselves would take several times the memory. */
  readonly #files = new Map<string, ReadonlyMap<ObjectId, DecodedManifest>>();
  /** Files that define an object, in the order of their names: the first one counts. */
  readonly #definedIn = new Map<ObjectId, string[]>();

  constructor(nodeName: string, emit: EventSink, { nodePorts = NODE_PORTS, guard }: StoreOptions = {}) {
    this.#nodeName = nodeName;
    this.#nodePorts = nodePorts;
    this.#guard = guard;
    this.#emit = emit;
    this.#producer = new ManifestProducer(emit);
  }

  /** Emits the slices that are made from all files that changed together. */
  flush(): void {
    this.#producer.flush();
  }

  /** An empty draft of a file. */
  draft(file: string): FileDraft {
    return new FileDraft(file, (kind, key, object) =>
      admitted(KINDS[kind].decode(object, key), { kind, key, object, nodePorts: this.#nodePorts }),
    );
  }

  /** Names of the files with objects here. */
  get files(): string[] {
    return [...this.#files.keys()];
  }

  /** A Pod by `namespace/name`, as the first of its files defines it. */
  pod(key: string): SourcePod | undefined {
    const id = `Pod ${key}`;
    const [first = ''] = this.#definedIn.get(id) ?? [];
    const input = this.#files.get(first)?.get(id)?.input;
    return input?.kind === 'Pod' ? input.value : undefined;
  }

  /** The file is gone, and with it the objects that it defined. */
  remove(file: string): void {
    this.#replace(file, new Map());
    this.#files.delete(file);
    this.#emit({ kind: 'faults', key: file, faults: [] });
  }

  /** The file or folder could not be read. Its objects stay (invariant 2), and the fault is reported. */
  unreadable(file: string, cause: string): void {
    const isOf = (name: string) => name === file || dirname(name) === file;
    const stays = [...this.#files].some(([name, objects]) => objects.size > 0 && isOf(name)) ? STAYS : '';
    this.#emit(fileFault(file, `cannot be read: ${cause}${stays}`));
  }

  /** The file has no objects any more. They stay until the file is removed, because a slow program may still be writing it. */
  emptied(file: string): void {
    this.#emit(fileFault(file, 'holds no object any more; its former objects stay in force until the file is removed'));
  }

  /** Whether the file held objects and the draft has none: the file may be in the middle of being saved. */
  empties({ file, count }: FileDraft): boolean {
    const had = this.#files.get(file)?.size ?? 0;
    return had > 0 && count === 0;
  }

  /** Whether the file held objects that the draft lacks. */
  loses({ file, objects }: FileDraft, { problemCount }: Pick<ParsedFile, 'problemCount'>): boolean {
    const before = this.#files.get(file);
    if (before === undefined || problemCount > 0) return false;
    return [...before.keys()].some((id) => !objects.has(id));
  }

  /** Replaces the objects of a file. If a document of the file is broken, objects that the other documents do not define stay as they were. */
  set({ file, objects, faults }: FileDraft, read: Pick<ParsedFile, 'problems' | 'problemCount'>): void {
    const before = this.#files.get(file);
    const whole = new Map(objects);
    if (read.problemCount > 0) {
      for (const [id, object] of before ?? []) if (!whole.has(id)) whole.set(id, object);
    }
    for (const [id, held] of whole) whole.set(id, lastGood(held, before?.get(id)));
    this.#replace(file, whole);
    const stays = (before?.size ?? 0) > 0 ? STAYS : '';
    this.#emit({ kind: 'faults', key: file, faults: [...documentFaults({ file, stays }, read), ...faults] });
  }

  #replace(file: string, objects: ReadonlyMap<ObjectId, DecodedManifest>): void {
    const before = this.#files.get(file);
    this.#files.set(file, objects);
    for (const id of before?.keys() ?? []) {
      if (objects.has(id)) continue;
      const left = (this.#definedIn.get(id) ?? []).filter((other) => other !== file);
      if (left.length > 0) this.#definedIn.set(id, left);
      else this.#definedIn.delete(id);
      this.#emitObject(id);
    }
    for (const id of objects.keys()) {
      const files = this.#definedIn.get(id);
      if (files === undefined) this.#definedIn.set(id, [file]);
      else if (!files.includes(file)) this.#definedIn.set(id, [...files, file].sort());
      this.#emitObject(id);
    }
  }

  /** Emits the object as the first of its files defines it. */
  #emitObject(id: ObjectId): void {
    const space = id.indexOf(' ');
    const kind = id.slice(0, space) as ManifestKind;
    const key = id.slice(space + 1);
    const [first, ...others] = this.#definedIn.get(id) ?? [];
    const held = first === undefined ? undefined : this.#files.get(first)?.get(id);
    const { event, input } = held ?? goneOf(kind, key);
    if (input !== undefined) this.#producer.set(key, input);
    // Other Nodes matter only to the producer.
    if (kind === 'Node' && key !== this.#nodeName) return;
    const twice = new FaultList(kind, key);
    for (const other of others) twice.leaveOut('', other, `defines it again; the definition in ${first} is used`);
    const whole = 'faults' in event ? { ...event, faults: [...event.faults, ...twice.list] } : event;
    if (whole.kind === 'node') this.#guard?.setNode(whole.node?.addresses ?? []);
    if (whole.kind === 'service' && this.#guard !== undefined) this.#guard.add(whole);
    else this.#emit(whole);
  }
}

/** A fault of a whole file. */
function fileFault(file: string, problem: string): SourceEvent {
  const faults = new FaultList('file', file);
  faults.setAside('', '', problem);
  return { kind: 'faults', key: file, faults: faults.list };
}

/** The key of an object within its kind: Nodes and ServiceCIDRs have no namespace. */
function nameOf(kind: ManifestKind, key: string): string {
  return kind === 'Node' || kind === 'ServiceCIDR' ? (key.split('/')[1] ?? '') : key;
}

/** `a Service`, `an EndpointSlice`, `Endpoints` */
function articled(kind: ManifestKind): string {
  if (kind === 'Endpoints') return kind;
  return /^[AEIOU]/.test(kind) ? `an ${kind}` : `a ${kind}`;
}

/** The invalid one of an object's name and namespace. */
function nameProblem(object: unknown): { field: string; value: unknown; problem: string } {
  const { metadata } = object as { metadata?: { name?: unknown; namespace?: unknown } | null };
  const { name, namespace = 'default' } = metadata ?? {};
  const isName = typeof name === 'string' && isObjectName(name);
  const [field, value] = isName ? ['metadata.namespace', namespace] : ['metadata.name', name];
  if (value === undefined) return { field, value, problem: 'is missing; every object needs a name' };
  const form = 'lower-case letters, digits, - and ., with a letter or digit at both ends, at most 253 characters';
  const quotes = typeof value === 'number' || typeof value === 'boolean' ? '; write it in quotes' : '';
  return { field, value, problem: `must be a name: ${form}${quotes}` };
}

/** One fault for each broken document, by its line. `stays`: the consequence, for the end of each message. */
export function documentFaults(
  { file, stays }: { readonly file: string; readonly stays: string },
  { problems, problemCount }: Pick<ParsedFile, 'problems' | 'problemCount'>,
): readonly Fault[] {
  const faults = new FaultList('file', file);
  for (const { reason, line, column } of problems)
    faults.setAside(`line ${line}, column ${column}`, '', `${reason}${stays}`);
  if (problemCount > problems.length)
    faults.setAside('', '', `${problemCount - problems.length} more of its documents cannot be read${stays}`);
  return faults.list;
}
