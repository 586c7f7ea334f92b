/** Reads a KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1) as flags, and writes a configuration as such a file. */

import { parseDuration } from '../base/duration.ts';
import { type Problem, repeatedText, type Value } from '../cluster/documents/documents.ts';
import { yamlText } from '../cluster/documents/yaml.ts';
import type { Config } from './config.ts';
import { type ConfigField, FIELDS, SECTIONS } from './file-fields.ts';
import { ConfigError, camel, type Flags } from './flags.ts';

export const API_VERSION = 'kubeproxy.config.k8s.io/v1alpha1';
const KIND = 'KubeProxyConfiguration';

/** Flags that count beside a file. The file overrides all others, as in kube-proxy. */
export const BESIDE_FILE = [
  'hostname-override',
  'master',
  'v',
  'logging-format',
  'once',
  'manifests',
  'service-node-port-range',
  'allow-node-address-ports',
  'iptables-backend',
  'nftables-count-connections',
  'service-metrics',
  'reset-gone',
  'failover',
  'takeover',
  'takeover-window',
  'datapath-check',
  'datapath-addresses',
  'scrape-bind-address',
  'programmed-authentication',
  'max-connections-per-client',
  'fleet-service',
  'record-dir',
  'record-size',
  'output',
  'config',
].map(camel);

export interface FileFlags {
  readonly flags: Flags;
  /** The field of each flag's value, by the flag's name in camel case. */
  readonly origins: ReadonlyMap<string, string>;
  /** Fields that are set and have no effect. */
  readonly idle: readonly ConfigField[];
  /** All fields of the file. */
  readonly given: Readonly<Record<string, unknown>>;
  /** Reasons why strict decoding refuses the file. It is decoded leniently then, as in kube-proxy. */
  readonly lenient: readonly string[];
}

/** The parsed file. */
export interface FileContent {
  readonly values: readonly Value[];
  readonly problems: readonly Problem[];
}

const HOSTNAME = camel('hostname-override');

/**
 * The flags that result from a file and the command line. Throws ConfigError with all fields of a wrong type, or with the reason why the file
 * holds no KubeProxyConfiguration.
 */
export function flagsFromFile(content: FileContent, commandLine: Flags): FileFlags {
  const { object, lenient } = configurationOf(content);
  const found = new Map<string, unknown>();
  const faults: string[] = [];
  collect(object, '', found, faults);
  const flags: Record<string, string | boolean | undefined> = {};
  const origins = new Map<string, string>();
  const idle: ConfigField[] = [];
  for (const [path, value] of found) {
    const field = FIELDS.find((one) => one.path === path);
    if (field === undefined) {
      lenient.push(`unknown field "${path}"`);
      continue;
    }
    const problem = typeProblem(field, value);
    if (problem !== undefined) faults.push(`${path}: ${JSON.stringify(value)}: ${problem}`);
    else if (field.flag === undefined) {
      if (!isZero(value)) idle.push(field);
    } else if (!isUnset(path, value)) {
      flags[camel(field.flag)] = flagText(value);
      origins.set(camel(field.flag), path);
    }
  }
  if (faults.length > 0) throw new ConfigError(faults.map((fault) => `--config: ${fault}`).join('; '));
  for (const name of BESIDE_FILE) {
    if (commandLine[name] === undefined) continue;
    // An empty name, as of a variable that is not set, leaves the file's (docs/semantics.md 10.4).
    if (name === HOSTNAME && commandLine[name] === '') continue;
    flags[name] = commandLine[name];
    origins.delete(name);
  }
  // --manifests replaces the cluster that the file names.
  if (flags.manifests !== undefined) delete flags.kubeconfig;
  return { flags, origins, idle, lenient, given: { ...object } };
}

function flagText(value: unknown): string {
  if (Array.isArray(value)) return value.join(',');
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map(([name, one]) => `${name}=${one}`)
    .join(',');
}

/**
 * The file of a configuration, with all defaults, for --write-config-to and /configz. Fields of the given file that have no effect are
 * kept. `others`: the same configuration in other modes that may be chosen, whose sections are in the file too.
 */
export function fileFromConfig(config: Config, others: readonly Config[] = []): Readonly<Record<string, unknown>> {
  const own = others.reduce((whole, other) => withMore(whole, ownFields(other)), ownFields(config));
  return withMore(own, config.given);
}

/** Adds fields that are not set, such as those of the given file, unchanged. */
function withMore(
  own: Readonly<Record<string, unknown>>,
  given: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const whole: Record<string, unknown> = { ...own };
  for (const [name, value] of Object.entries(given)) {
    const mine = whole[name];
    if (mine === undefined) whole[name] = value;
    else if (isSection(mine) && isSection(value)) whole[name] = withMore(mine, value);
  }
  return whole;
}

function isSection(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Sections without a field are left out. */
function ownFields(config: Config): Readonly<Record<string, unknown>> {
  // kube-proxy's configuration always has this section.
  const whole: Record<string, unknown> = { apiVersion: API_VERSION, kind: KIND, nftables: {} };
  for (const { path, write } of FIELDS) {
    const value = write?.(config);
    if (value === undefined) continue;
    const [section = '', name] = path.split('.');
    if (name === undefined) whole[section] = value;
    else whole[section] = { ...(whole[section] as object | undefined), [name]: value };
  }
  return whole;
}

export function fileText(config: Config, others: readonly Config[] = []): string {
  return yamlText(fileFromConfig(config, others));
}

/** Whether the value means «not set», as an empty string, an empty list and a period of 0 do in kube-proxy. */
function isUnset(path: string, value: unknown): boolean {
  if (value === '' || (Array.isArray(value) && value.length === 0)) return true;
  return path.endsWith('yncPeriod') && parseDuration(String(value)) === 0;
}

/** Whether this is Go's zero value, which a file that a program wrote has for each field that was not set. */
function isZero(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length === 0;
  return value === '' || value === 0 || value === false || value === '0s';
}

function typeProblem({ type }: ConfigField, value: unknown): string | undefined {
  const is = (right: boolean, what: string) => (right ? undefined : `must be ${what}`);
  switch (type) {
    case 'string':
      return is(typeof value === 'string', 'a string');
    case 'boolean':
      return is(typeof value === 'boolean', 'true or false');
    case 'integer':
      return is(Number.isSafeInteger(value), 'a whole number');
    case 'number':
      return is(typeof value === 'number', 'a number');
    case 'duration':
      return is(
        typeof value === 'string' && parseDuration(value) !== undefined,
        'a duration in quotes, such as "30s" or "1m30s"',
      );
    case 'duration or nanoseconds':
      return is(
        Number.isSafeInteger(value) || (typeof value === 'string' && parseDuration(value) !== undefined),
        'a duration such as "5s", or nanoseconds',
      );
    case 'list of strings':
      return is(Array.isArray(value) && value.every((one) => typeof one === 'string'), 'a list of strings');
    case 'map of booleans': {
      const isMap = typeof value === 'object' && value !== null && !Array.isArray(value);
      return is(
        isMap && Object.values(value).every((one) => typeof one === 'boolean'),
        'a map of names to true or false',
      );
    }
    default:
      return undefined;
  }
}

/** The object of the file. A repeated key only makes the decoding lenient: its last value counts, as in kube-proxy. */
function configurationOf({ values, problems }: FileContent): { object: object; lenient: string[] } {
  const [problem] = problems;
  if (problem !== undefined)
    throw new ConfigError(`--config: line ${problem.line}, column ${problem.column}: ${problem.reason}`);
  const [first, second] = values;
  if (second !== undefined)
    throw new ConfigError(`--config: line ${second.line}: a second document begins; the file must hold one ${KIND}`);
  const { apiVersion, kind, ...fields } = (first?.value ?? {}) as { apiVersion?: unknown; kind?: unknown };
  if (apiVersion !== API_VERSION || kind !== KIND) {
    throw new ConfigError(
      `--config: must be a ${KIND} of ${API_VERSION}; kind is ${wordOf(kind)}, and apiVersion is ${wordOf(apiVersion)}`,
    );
  }
  const lenient = (first?.repeated ?? []).map(
    ({ key, line, column }) => `line ${line}, column ${column}: ${repeatedText(key)}; the last one counts`,
  );
  return { object: fields, lenient };
}

/** The value of a required field, for a message. */
function wordOf(value: unknown): string {
  if (value === undefined || value === null) return 'missing';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Collects the fields that are set, by path. Lists, and maps with free keys, count as values. */
function collect(object: object, prefix: string, into: Map<string, unknown>, faults: string[]): void {
  for (const [name, value] of Object.entries(object)) {
    if (value === null || value === undefined) continue;
    const path = prefix + name;
    if (prefix !== '' || !SECTIONS.has(name)) into.set(path, value);
    else if (typeof value === 'object' && !Array.isArray(value)) collect(value as object, `${name}.`, into, faults);
    else faults.push(`${path}: ${JSON.stringify(value)}: must be a map of fields`);
  }
}
