/**
 * /statusz and /flagz as the components of Kubernetes have them (KEP-4827, KEP-4828; k8s.io/apiserver, pkg/server/statusz and flagz of
 * 1.36): text for people, and a versioned object for a client that names group, version and kind in `Accept`. Kubernetes requires a right
 * for them; here a client that may ask questions gets them (query-handler.ts).
 */
import { type Answer, type HttpRequest, jsonAnswer, textAnswer } from './http.ts';
import { problemAnswer, refusalOf } from './query-handler.ts';

/** Facts of the process about itself. */
export interface ComponentInfo {
  /** Of slicewire. */
  readonly version: string;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** Now, in milliseconds since 1970. */
  readonly wall: () => number;
  /** From 0 to 1, without 1. */
  readonly random: () => number;
  /** By their names, sorted; no value is a secret. */
  readonly flags: ReadonlyMap<string, string>;
}

export interface Component extends ComponentInfo {
  readonly name: string;
  /** All paths of this server. */
  readonly paths: () => readonly string[];
  /** The server listens at loopback. */
  readonly isLocal: () => boolean;
  /** The flag with the address of this server. */
  readonly flag: string;
}

type ZpageKind = 'Statusz' | 'Flagz';

const KINDS: ReadonlyMap<string, ZpageKind> = new Map([
  ['/statusz', 'Statusz'],
  ['/flagz', 'Flagz'],
]);
const GROUP = 'config.k8s.io';
/** Both versions have the same fields. */
const VERSIONS = ['v1beta1', 'v1alpha1'];
/** The text has one of them at random, so that no program is written that reads it. */
const DELIMITERS = [':', ': ', '=', ' '];
const WARNING =
  'Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.';

/** undefined for another path. The method must be GET or HEAD. */
export function zpageAnswer(component: Component, request: HttpRequest): Answer | undefined {
  const kind = KINDS.get(request.path);
  if (kind === undefined) return undefined;
  const refusal = refusalOf(request, component.isLocal(), component.flag);
  if (refusal !== undefined) return problemAnswer(403, refusal);
  const form = negotiated(request.accept ?? '', kind);
  if (form === undefined) {
    const json = `application/json;v=${VERSIONS[0]};g=${GROUP};as=${kind}`;
    return textAnswer(406, `${request.path} is served as text/plain, and as ${json}\n`);
  }
  if (form === 'text') {
    const delimiter = DELIMITERS[Math.floor(component.random() * DELIMITERS.length)] ?? '=';
    const head = `\n${component.name} ${kind.toLowerCase()}\n${WARNING}\n\n`;
    return textAnswer(200, head + (kind === 'Statusz' ? statusText : flagsText)(component, delimiter));
  }
  const body = {
    ...{ kind, apiVersion: `${GROUP}/${form.version}`, metadata: { name: component.name } },
    ...(kind === 'Statusz' ? statusOf(component) : { flags: Object.fromEntries(component.flags) }),
  };
  return jsonAnswer(200, `${JSON.stringify(body)}\n`);
}

/** Fields that Kubernetes may leave out, and that mean nothing here: goVersion, emulationVersion, minimumCompatibilityVersion. */
function statusOf({ version, startedAt, wall, paths }: Component): object {
  return {
    startTime: new Date(startedAt).toISOString().replace(/\.\d+Z$/, 'Z'),
    uptimeSeconds: secondsSince(startedAt, wall()),
    binaryVersion: version,
    paths: [...paths()].sort(),
  };
}

function statusText({ version, startedAt, wall, paths }: Component, delimiter: string): string {
  const up = secondsSince(startedAt, wall());
  const two = (count: number) => String(count).padStart(2, '0');
  const rows = [
    ['Started', unixDate(new Date(startedAt))],
    ['Up', `${Math.floor(up / 3600)} hr ${two(Math.floor(up / 60) % 60)} min ${two(up % 60)} sec`],
    ['Node.js version', process.versions.node],
    ['Binary version', version],
    ['Paths', [...paths()].sort().join(' ')],
  ];
  return rows.map(([name, value]) => `${name}${delimiter} ${value}\n`).join('');
}

function flagsText({ flags }: Component, delimiter: string): string {
  return [...flags].map(([name, value]) => `${name}${delimiter}${value}\n`).join('');
}

function secondsSince(startedAt: number, now: number): number {
  return Math.max(0, Math.floor((now - startedAt) / 1000));
}

/** As Go's time.UnixDate: `Wed Oct 16 21:03:43 UTC 2024`, a day of one digit with a space before it. */
function unixDate(date: Date): string {
  const [day = '', number = '', month = '', year = '', time = ''] = date.toUTCString().replace(',', '').split(' ');
  return `${day} ${month} ${number.replace(/^0/, ' ')} ${time} UTC ${year}`;
}

/** The form that the client prefers; undefined where it accepts none of them. A missing header means text. */
function negotiated(accept: string, kind: ZpageKind): 'text' | { readonly version: string } | undefined {
  if (accept.trim() === '') return 'text';
  const wanted = accept
    .split(',')
    .map(mediaRange)
    .filter(({ quality }) => quality > 0)
    .sort((a, b) => b.quality - a.quality);
  for (const { type, parameters } of wanted) {
    const [group, version, as] = ['g', 'v', 'as'].map((name) => parameters.get(name));
    const isAny = type === '*/*';
    if ((isAny || type === 'application/*' || type === 'application/json') && group === GROUP && as === kind) {
      const known = VERSIONS.find((one) => one === version);
      if (known !== undefined) return { version: known };
    }
    const isPlain = group === undefined && version === undefined && as === undefined;
    if ((isAny || type === 'text/*' || type === 'text/plain') && isPlain) return 'text';
  }
  return undefined;
}

interface MediaRange {
  /** `application/json`. */
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
  readonly quality: number;
}

/** One part of `Accept`. A quality that is no number counts as 0. */
function mediaRange(text: string): MediaRange {
  const [type = '', ...rest] = text.split(';').map((part) => part.trim());
  const parameters = new Map(
    rest.map((part) => {
      const [name = '', value = ''] = part.split('=', 2).map((one) => one.trim());
      return [name.toLowerCase(), value.replace(/^"(.*)"$/, '$1')] as const;
    }),
  );
  const quality = Number(parameters.get('q') ?? 1);
  return { type: type.toLowerCase(), parameters, quality: Number.isNaN(quality) ? 0 : quality };
}
