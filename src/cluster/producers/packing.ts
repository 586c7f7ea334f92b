/**
 * Packs plain data (the values of JSON, and undefined) into one string of one-byte characters, which needs a fifth of the memory of the
 * objects. Words of the API are one byte, addresses, UUIDs, times and numbers are binary, and a repeated text is written once.
 * `proxy/model/packed` has a form for each kind, without names of fields; here fields of other writers must survive. The form is for
 * this process's memory alone. Unpacked objects have their fields in the original order.
 */
import { isUuid, type Packed, Packer, packUuid, Unpacker, unpackUuid } from '../../proxy/model/packed/bytes.ts';

/** Frequent texts of objects, at most 224. Order and number may change, because the form never leaves this process. */
export const WORDS: readonly string[] = [
  '',
  // Slices and Endpoints.
  ...['apiVersion', 'kind', 'metadata', 'addressType', 'endpoints', 'ports', 'subsets'],
  ...['discovery.k8s.io/v1', 'EndpointSlice', 'v1', 'Endpoints', 'Service', 'Pod', 'IPv4', 'IPv6', 'FQDN'],
  ...['name', 'generateName', 'namespace', 'uid', 'resourceVersion', 'generation', 'creationTimestamp'],
  ...['deletionTimestamp', 'deletionGracePeriodSeconds', 'labels', 'annotations', 'ownerReferences', 'finalizers'],
  ...['controller', 'blockOwnerDeletion', 'addresses', 'notReadyAddresses', 'conditions', 'ready', 'serving'],
  ...['terminating', 'hostname', 'targetRef', 'nodeName', 'zone', 'hints', 'forZones', 'forNodes', 'fieldPath'],
  ...['deprecatedTopology', 'port', 'protocol', 'appProtocol', 'ip', 'TCP', 'UDP', 'SCTP'],
  // Labels and annotations.
  ...['endpointslice.kubernetes.io/managed-by', 'kubernetes.io/service-name', 'service.kubernetes.io/headless'],
  ...['endpointslice-controller.k8s.io', 'endpointslicemirroring-controller.k8s.io'],
  ...['endpoints.kubernetes.io/last-change-trigger-time', 'endpoints.kubernetes.io/over-capacity', 'truncated'],
  ...['endpoints.kubernetes.io/managed-by', 'endpoint-controller', 'endpointslice.kubernetes.io/skip-mirror'],
  ...['kubernetes.io/cluster-service', 'kubernetes.io/name', 'k8s-app', 'app', 'component', 'provider', 'tier', 'role'],
  ...[
    'app.kubernetes.io/name',
    'app.kubernetes.io/instance',
    'app.kubernetes.io/component',
    'app.kubernetes.io/version',
  ],
  ...[
    'app.kubernetes.io/part-of',
    'app.kubernetes.io/managed-by',
    'helm.sh/chart',
    'Helm',
    'heritage',
    'release',
    'chart',
  ],
  ...[
    'pod-template-hash',
    'controller-revision-hash',
    'statefulset.kubernetes.io/pod-name',
    'version',
    'true',
    'false',
  ],
  ...['apps.kubernetes.io/pod-index', 'batch.kubernetes.io/job-name', 'batch.kubernetes.io/controller-uid', 'job-name'],
  ...['pod-template-generation', 'meta.helm.sh/release-name', 'meta.helm.sh/release-namespace', 'controller-uid'],
  // Ports.
  ...[
    'http',
    'https',
    'metrics',
    'grpc',
    'dns',
    'dns-tcp',
    'web',
    'webhook',
    'tcp',
    'health',
    'admin',
    'kubernetes.io/h2c',
  ],
  // Fields of the producers' views of Services and Pods.
  ...['createdAt', 'selector', 'takesEndpoints', 'families', 'isHeadless', 'publishNotReady', 'wantsTopology'],
  ...[
    'distribution',
    'target',
    'PreferClose',
    'PreferSameZone',
    'PreferSameNode',
    'subdomain',
    'readySince',
    'finished',
  ],
  ...['default', 'kube-system', 'kubernetes'],
];

// The form of packed data: the first byte of each value.

/** A byte from `FIRST_WORD` on is a word. */
const NULL = 0;
const FALSE = 1;
const TRUE = 2;
const UNDEFINED = 3;
const DOUBLE = 4;
const INTEGER = 5;
const ARRAY = 6;
const OBJECT = 7;
/** An object with the fields of an earlier one. */
const OBJECT_AGAIN = 8;
const TEXT = 9;
/** A text that occurred before. */
const TEXT_AGAIN = 10;
/** A text that begins as the last one of the same field. */
const TEXT_ALIKE = 11;
/** Texts in binary form (see `numberOf`, `ipv4Bits`, `timeOf`). */
const NUMBER = 16;
const IPV4 = 17;
const TIME = 18;
const UUID = 19;
const FIRST_WORD = 32;

const BYTE_OF = new Map(WORDS.map((word, i) => [word, FIRST_WORD + i]));
const MAX_WORD_LENGTH = Math.max(...WORDS.map(({ length }) => length));
/** Limit of shapes in one value. */
const MAX_SHAPES = 64;
/** A shorter beginning is not worth its bytes. */
const MIN_ALIKE = 4;

/** Packs a value. Throws TypeError for a value that is no plain data. */
export function pack<T>(value: T): Packed<T> {
  return packer.pack(value);
}

const double = new DataView(new ArrayBuffer(8));

class ObjectPacker {
  readonly #bytes = new Packer();
  readonly #texts = new Map<string, number>();
  readonly #shapes: (readonly string[])[] = [];
  /** The last text of each field. */
  readonly #last = new Map<string, string>();

  pack<T>(value: T): Packed<T> {
    this.#shapes.length = 0;
    if (this.#texts.size > 0) this.#texts.clear();
    if (this.#last.size > 0) this.#last.clear();
    // A refused value leaves a partial text.
    this.#bytes.begin();
    this.value(value, '');
    return this.#bytes.end();
  }

  /** `field`: the name of the field, or of the list. */
  value(value: unknown, field: string): void {
    if (typeof value === 'string') this.#text(value, field);
    else if (typeof value === 'number') this.#number(value);
    else if (value === null) this.#bytes.byte(NULL);
    else if (value === undefined) this.#bytes.byte(UNDEFINED);
    else if (value === true) this.#bytes.byte(TRUE);
    else if (value === false) this.#bytes.byte(FALSE);
    else if (Array.isArray(value)) {
      this.#bytes.byte(ARRAY);
      this.#bytes.number(value.length);
      for (const item of value) this.value(item, field);
    } else if (typeof value === 'object') this.#object(value);
    else throw new TypeError(`cannot pack a ${typeof value}`);
  }

  #object(value: object): void {
    const names = Object.keys(value);
    const before = this.#shapes.findIndex((shape) => sameNames(shape, names));
    if (before < 0) {
      // The limit bounds the comparisons for objects that all have different fields.
      if (this.#shapes.length < MAX_SHAPES) this.#shapes.push(names);
      this.#bytes.byte(OBJECT);
      this.#bytes.number(names.length);
      for (const name of names) this.#text(name, '');
    } else {
      this.#bytes.byte(OBJECT_AGAIN);
      this.#bytes.number(before);
    }
    const fields: readonly unknown[] = Object.values(value);
    for (const [i, name] of names.entries()) this.value(fields[i], name);
  }

  #number(value: number): void {
    if (Number.isSafeInteger(value) && value >= 0 && !Object.is(value, -0)) {
      this.#bytes.byte(INTEGER);
      this.#bytes.number(value);
      return;
    }
    this.#bytes.byte(DOUBLE);
    double.setFloat64(0, value);
    for (let i = 0; i < 8; i++) this.#bytes.byte(double.getUint8(i));
  }

  #text(text: string, field: string): void {
    if (this.#binary(text)) return;
    const word = text.length <= MAX_WORD_LENGTH ? BYTE_OF.get(text) : undefined;
    if (word !== undefined) {
      this.#bytes.byte(word);
      return;
    }
    const before = this.#texts.get(text);
    if (before !== undefined) {
      this.#bytes.byte(TEXT_AGAIN);
      this.#bytes.number(before);
      return;
    }
    this.#texts.set(text, this.#texts.size);
    const alike = alikeLength(text, this.#last.get(field) ?? '');
    this.#last.set(field, text);
    this.#bytes.byte(alike > 0 ? TEXT_ALIKE : TEXT);
    if (alike > 0) this.#bytes.number(alike);
    this.#bytes.text(alike > 0 ? text.slice(alike) : text);
  }

  /** Writes a text that has a shorter form; returns whether it has one. */
  #binary(text: string): boolean {
    const first = text.charCodeAt(0);
    if (!isHexDigit(first)) return false;
    const number = numberOf(text, first);
    if (number !== undefined) {
      this.#bytes.byte(NUMBER);
      this.#bytes.number(number);
      return true;
    }
    const bits = ipv4Bits(text, first);
    if (bits !== undefined) {
      this.#bytes.byte(IPV4);
      for (let shift = 24; shift >= 0; shift -= 8) this.#bytes.byte((bits >>> shift) & 0xff);
      return true;
    }
    const time = timeOf(text, first);
    if (time !== undefined) {
      this.#bytes.byte(TIME);
      this.#bytes.number(time);
      return true;
    }
    if (!isUuid(text)) return false;
    this.#bytes.byte(UUID);
    packUuid(this.#bytes, text);
    return true;
  }
}

/** The length of the beginning that two texts share; 0 when it is short. */
function alikeLength(a: string, b: string): number {
  const limit = Math.min(a.length, b.length);
  let length = 0;
  while (length < limit && a.charCodeAt(length) === b.charCodeAt(length)) length++;
  return length < MIN_ALIKE ? 0 : length;
}

function isHexDigit(code: number): boolean {
  return (code >= 0x30 && code <= 0x39) || (code >= 0x61 && code <= 0x66);
}

function sameNames(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** One value is packed at a time. */
const packer = new ObjectPacker();

// Texts with a binary form: IPv4 addresses, times, and numbers. A text qualifies only if unpacking returns exactly the same text.

const ZERO = 0x30;
const NINE = 0x39;

/** Digits without a leading zero, such as a resourceVersion. `first`: the code of the first character. */
function numberOf(text: string, first: number): number | undefined {
  if (first < ZERO || first > NINE || text.length > 15 || (first === ZERO && text.length > 1)) return undefined;
  let value = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < ZERO || code > NINE) return undefined;
    value = value * 10 + code - ZERO;
  }
  return value;
}

/** The 32 bits of an IPv4 address. */
function ipv4Bits(text: string, first: number): number | undefined {
  if (first < ZERO || first > NINE || text.length > 15 || text.length < 7) return undefined;
  let [bits, part, dots, digits] = [0, 0, 0, 0];
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x2e) {
      if (digits === 0 || dots === 3) return undefined;
      bits = bits * 0x100 + part;
      [part, digits, dots] = [0, 0, dots + 1];
    } else {
      const isLeadingZero = digits === 1 && part === 0;
      if (code < ZERO || code > NINE || isLeadingZero) return undefined;
      part = part * 10 + code - ZERO;
      digits += 1;
      if (part > 0xff) return undefined;
    }
  }
  return dots === 3 && digits > 0 ? bits * 0x100 + part : undefined;
}

function ipv4Text(a: number, b: number, c: number, d: number): string {
  return `${a}.${b}.${c}.${d}`;
}

/** Seconds since 1970 of an RFC 3339 time in UTC without a fraction. */
function timeOf(text: string, first: number): number | undefined {
  if (first < ZERO || first > NINE || text.length !== 20 || !text.endsWith('Z')) return undefined;
  const seconds = Date.parse(text) / 1000;
  return Number.isSafeInteger(seconds) && seconds >= 0 && timeText(seconds) === text ? seconds : undefined;
}

/** The last result, because objects have few different times. */
let lastTime = { seconds: 0, text: '1970-01-01T00:00:00Z' };

function timeText(seconds: number): string {
  if (seconds !== lastTime.seconds) {
    lastTime = { seconds, text: new Date(seconds * 1000).toISOString().replace('.000Z', 'Z') };
  }
  return lastTime.text;
}

/** The value that was packed, as a new one. */
export function unpack<T>(packed: Packed<T>): T {
  return new ObjectUnpacker(packed).value('') as T;
}

class ObjectUnpacker {
  readonly #bytes: Unpacker;
  readonly #texts: string[] = [];
  readonly #shapes: (readonly string[])[] = [];
  readonly #last = new Map<string, string>();

  constructor(packed: Packed<unknown>) {
    this.#bytes = new Unpacker(packed);
  }

  value(field: string): unknown {
    const kind = this.#bytes.byte();
    switch (kind) {
      case NULL:
        return null;
      case FALSE:
        return false;
      case TRUE:
        return true;
      case UNDEFINED:
        return undefined;
      case INTEGER:
        return this.#bytes.number();
      case DOUBLE:
        for (let i = 0; i < 8; i++) double.setUint8(i, this.#bytes.byte());
        return double.getFloat64(0);
      case ARRAY:
        return this.#list(field);
      case OBJECT:
        return this.#object(this.#newShape());
      case OBJECT_AGAIN:
        return this.#object(this.#shapes[this.#bytes.number()] ?? []);
      default:
        return this.#text(kind, field);
    }
  }

  #list(field: string): unknown[] {
    const length = this.#bytes.number();
    const list: unknown[] = [];
    for (let i = 0; i < length; i++) list.push(this.value(field));
    return list;
  }

  #newShape(): readonly string[] {
    const length = this.#bytes.number();
    const names: string[] = [];
    for (let i = 0; i < length; i++) names.push(this.#text(this.#bytes.byte(), ''));
    this.#shapes.push(names);
    return names;
  }

  #object(names: readonly string[]): object {
    const object: Record<string, unknown> = {};
    for (const name of names) {
      const value = this.value(name);
      // An assignment would change the prototype.
      if (name === '__proto__') Object.defineProperty(object, name, { value, enumerable: true, writable: true });
      else object[name] = value;
    }
    return object;
  }

  #text(kind: number, field: string): string {
    switch (kind) {
      case TEXT_AGAIN:
        return this.#texts[this.#bytes.number()] ?? '';
      case NUMBER:
        return String(this.#bytes.number());
      case IPV4:
        return ipv4Text(this.#bytes.byte(), this.#bytes.byte(), this.#bytes.byte(), this.#bytes.byte());
      case TIME:
        return timeText(this.#bytes.number());
      case UUID:
        return unpackUuid(this.#bytes);
      case TEXT:
      case TEXT_ALIKE: {
        const alike = kind === TEXT_ALIKE ? (this.#last.get(field) ?? '').slice(0, this.#bytes.number()) : '';
        const text = alike + this.#bytes.text();
        this.#texts.push(text);
        this.#last.set(field, text);
        return text;
      }
      default:
        return WORDS[kind - FIRST_WORD] ?? '';
    }
  }
}

/** Objects by key, each packed. `get` returns a new object each time. */
export class PackedMap<T> {
  readonly #packed = new Map<string, Packed<T>>();

  keys(): Iterable<string> {
    return this.#packed.keys();
  }

  get(key: string): T | undefined {
    const packed = this.#packed.get(key);
    return packed === undefined ? undefined : unpack(packed);
  }

  set(key: string, value: T): void {
    this.#packed.set(key, pack(value));
  }

  delete(key: string): void {
    this.#packed.delete(key);
  }
}
