/**
 * docs/reference/kube-proxy-flags.md: every flag, field and metric of kube-proxy 1.37, with its effect in slicewire. The facts about kube-proxy
 * are in test/data/kube-proxy-1.37.json; those about slicewire are the tables that the program itself works by.
 *
 *   node scripts/kube-proxy-flags.ts      writes the file; a test compares it with the source
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { COMMANDS, flagsOf } from '../src/cli/commands/command-table.ts';
import { DEPRECATED_FLAGS, IDLE_FLAGS } from '../src/config/agent-flags.ts';
import { FIELDS } from '../src/config/file-fields.ts';
import { type FlagEntry, helpOf } from '../src/config/flags.ts';
import { MODE_NAMES } from '../src/proxy/model/modes.ts';
import { Metrics, type MetricsOptions } from '../src/telemetry/metrics.ts';

const FACTS = fileURLToPath(new URL('../test/data/kube-proxy-1.37.json', import.meta.url));
const PAGE = fileURLToPath(new URL('../docs/reference/kube-proxy-flags.md', import.meta.url));

/** A flag or a field of kube-proxy. */
interface Setting {
  readonly type: string;
  /** As text; undefined: empty. */
  readonly default?: string;
}

export interface KubeProxyFacts {
  readonly version: string;
  readonly flags: readonly (Setting & {
    readonly name: string;
    /** The flag that takes its place. */
    readonly deprecated?: string;
    /** The last version that surely has it. */
    readonly until?: string;
    readonly platform?: 'windows';
  })[];
  readonly fields: readonly (Setting & { readonly path: string })[];
  readonly metrics: readonly {
    readonly name: string;
    readonly type: string;
    readonly labels: readonly string[];
    readonly modes: readonly string[];
  }[];
}

export function kubeProxyFacts(): KubeProxyFacts {
  return JSON.parse(readFileSync(FACTS, 'utf8')) as KubeProxyFacts;
}

/** Metrics of kube-proxy that are not served in a mode in which kube-proxy serves them, with the reason. */
export const METRICS_APART: Readonly<Record<string, string>> = {
  kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total:
    'not served: what is stale goes in the transaction that writes the rest, so its failure is counted by `kubeproxy_sync_proxy_rules_nftables_sync_failures_total`',
  kubeproxy_nftables_localhost_nodeport_rejected_packets_total:
    'not served: no rule rejects these packets, since nothing listens and the kernel itself refuses them ([node ports on loopback](../configure.md#node-ports-on-loopback))',
};
const WINDOWS = 'not served: it is for Windows only';

/** The names of metrics in each mode. */
export async function ownMetrics(): Promise<ReadonlyMap<string, readonly string[]>> {
  const nothing = { get: () => () => [] };
  const read = new Proxy({}, nothing) as MetricsOptions['read'];
  const named = MODE_NAMES.map(async (mode) => {
    const text = await new Metrics({ mode, families: ['IPv4', 'IPv6'], version: '', read }).text();
    return [mode, [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name = '']) => name)] as const;
  });
  return new Map(await Promise.all(named));
}

export async function kubeProxyFlagsPage(): Promise<string> {
  const { version, flags, fields, metrics } = kubeProxyFacts();
  const served = await ownMetrics();
  return `${[
    `# Flags, fields and metrics of kube-proxy ${version}`,
    'slicewire takes each flag of kube-proxy, and each field of a KubeProxyConfiguration, by its name.\nThis page lists what each does here. `scripts/kube-proxy-flags.ts` writes it from the tables of the program; a test fails when it is stale.',
    '[configure.md](../configure.md) says how flags and file go together, `slicewire run --help` lists the flags of slicewire alone,\nand [semantics.md](../semantics.md#10-configuration) has the rules.',
    'A flag or field without effect is accepted, and the log has a warning that names it and the reason.\nAn unknown flag is an error, an unknown field a warning, and an unknown feature gate an error, as in kube-proxy.',
    '## Flags',
    table(
      ['flag', 'type', 'default in kube-proxy', 'here'],
      flags.map((flag) => [`\`--${flag.name}\``, flag.type, shown(flag.default), flagHere(flag)]),
    ),
    '## Fields',
    table(
      ['field', 'type', 'default in kube-proxy', 'here'],
      fields.map((field) => [`\`${field.path}\``, field.type, shown(field.default), fieldHere(field.path)]),
    ),
    '## Metrics',
    table(
      ['metric', 'type', 'labels', 'modes of kube-proxy', 'here'],
      metrics.map((metric) => [
        `\`${metric.name}\``,
        metric.type,
        metric.labels.join(', '),
        metric.modes.join(', '),
        metricHere(metric, served),
      ]),
    ),
  ].join('\n\n')}\n`;
}

function flagHere({ name, until }: KubeProxyFacts['flags'][number]): string {
  const also = until === undefined ? '' : ` (in kube-proxy ${until}; not looked up in a later one)`;
  const idle = IDLE_FLAGS.find((one) => one.name === name);
  if (idle !== undefined) return `no effect: ${idle.why}${also}`;
  const instead = DEPRECATED_FLAGS.find((one) => one.name === name)?.instead;
  if (instead !== undefined) return `works, with a warning: it is deprecated, and \`--${instead}\` takes its place`;
  if (name === 'help') return 'the flags of a command';
  if (name === 'proxy-mode') return `${helpOf(runFlag('mode'))}; \`--mode\` is the same`;
  return helpOf(runFlag(name));
}

function runFlag(name: string): FlagEntry {
  const own = runFlags().find((one) => one.name === name);
  if (own === undefined) throw new Error(`--${name} of kube-proxy is not known: declare it in src/config/`);
  return own;
}

function fieldHere(path: string): string {
  const field = FIELDS.find((one) => one.path === path);
  if (field === undefined)
    throw new Error(`the field ${path} of kube-proxy is not known: add it to src/config/file-fields.ts`);
  const { idle, flag = '' } = field;
  if (idle !== undefined) return `no effect: ${idle}`;
  const idleFlag = IDLE_FLAGS.find((one) => one.name === flag);
  if (idleFlag !== undefined) return `no effect: ${idleFlag.why}`;
  return flag === 'nftables-masquerade-all'
    ? 'as `--masquerade-all`, in nftables mode'
    : `as \`--${runFlag(flag).name}\``;
}

function metricHere(
  { name, modes }: KubeProxyFacts['metrics'][number],
  served: ReadonlyMap<string, readonly string[]>,
): string {
  const apart = METRICS_APART[name];
  if (apart !== undefined) return apart;
  const here = [...served].filter(([, names]) => names.includes(name)).map(([mode]) => mode);
  if (modes.every((mode) => here.includes(mode)))
    return here.length === MODE_NAMES.length ? 'served' : `served in ${here.join(', ')}`;
  if (modes.every((mode) => !MODE_NAMES.some((one) => one === mode))) return WINDOWS;
  throw new Error(
    `the metric ${name} of kube-proxy is served in ${here.join(', ') || 'no mode'}: say why in METRICS_APART`,
  );
}

function runFlags(): readonly FlagEntry[] {
  return COMMANDS.filter(({ name }) => name === 'run').flatMap(flagsOf);
}

function shown(value: string | undefined): string {
  return value === undefined || value === '' ? '–' : `\`${value}\``;
}

function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(titles), line(titles.map(() => '---')), ...rows.map(line)].join('\n');
}

if (import.meta.main) writeFileSync(PAGE, await kubeProxyFlagsPage());
