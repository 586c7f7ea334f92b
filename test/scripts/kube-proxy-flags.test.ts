/** Every flag, field and metric of kube-proxy 1.37: known here, with its type and its default, and on the page that lists them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { kubeProxyFacts, kubeProxyFlagsPage, METRICS_APART, ownMetrics } from '../../scripts/kube-proxy-flags.ts';
import { loadConfig } from '../../src/agent/load-config.ts';
import { goArguments, programOf } from '../../src/cli/command-line.ts';
import { DEPRECATED_FLAGS, IDLE_FLAGS } from '../../src/config/agent-flags.ts';
import type { Config } from '../../src/config/config.ts';
import { flagsFromFile } from '../../src/config/config-file.ts';
import { FIELDS } from '../../src/config/file-fields.ts';
import { camel, type Flags } from '../../src/config/flags.ts';
import { configFromFlags } from '../../src/config/from-flags.ts';

const PAGE = fileURLToPath(new URL('../../docs/reference/kube-proxy-flags.md', import.meta.url));
const { flags, fields, metrics } = kubeProxyFacts();

/** Defaults that are others here. */
const OTHER_DEFAULTS = new Map([
  ['ipvs-min-sync-period', 'the field has 0s in kube-proxy as well'],
  ['logging-format', 'people read the log of a terminal, and programs that of others'],
  ['kube-api-qps', 'without effect'],
]);
const TYPES: Readonly<Record<string, readonly string[]>> = {
  string: ['string'],
  boolean: ['bool'],
  integer: ['int32', 'uint32'],
  number: ['float32'],
  duration: ['duration'],
  'duration or nanoseconds': ['duration or nanoseconds'],
  'list of strings': ['[]string'],
  'map of booleans': ['map[string]bool'],
  any: ['list of {filePattern, verbosity}', '{text, json} of {splitStream, infoBufferSize}'],
};
/** Flags of commands: they make no configuration. */
const ACTIONS = ['cleanup', 'config', 'help', 'init-only', 'version', 'write-config-to'];

/** What the command line hands over. */
async function parsed(...args: readonly string[]): Promise<Flags> {
  const found: Flags[] = [];
  const program = programOf(async (asked) => {
    found.push(asked.flags);
  });
  await program.parseAsync(goArguments(['run', ...args]), { from: 'user' });
  assert.equal(found.length, 1);
  return found[0] ?? {};
}

/** Whoever names the mode. */
const settings = ({ modeChoice, ...rest }: Config) => rest;

describe('the flags of kube-proxy 1.37', () => {
  it('are all taken by the command line, and its defaults mean what no flag means', async () => {
    const without = settings(configFromFlags({}));
    assert.ok(flags.length > 60, `${flags.length} flags`);
    for (const { name, type, default: value = '' } of flags) {
      if (name === 'help') continue;
      if (type === 'bool') assert.ok(camel(name) in (await parsed(`--${name}`)), `--${name}`);
      const read = await parsed(`--${name}=${value}`);
      assert.ok(value === 'false' || camel(name) in read, `--${name}`);
      if (ACTIONS.includes(name) || OTHER_DEFAULTS.has(name)) continue;
      assert.deepEqual(settings(configFromFlags(read)), without, `--${name}=${value}`);
    }
  });

  it('take the words of kube-proxy that are no values of Go', async () => {
    assert.deepEqual(await parsed('--version=raw'), await parsed('--version'));
  });

  it('are deprecated where kube-proxy’s are, and the warning names what to use instead', async () => {
    const found = flags.flatMap(({ name, deprecated }) =>
      deprecated === undefined ? [] : [{ name, instead: deprecated }],
    );
    assert.deepEqual(DEPRECATED_FLAGS, found);
    const { notes } = await loadConfig({ healthzPort: '10256', manifests: '/m' });
    assert.deepEqual(
      notes.map(({ text }) => text),
      ['--healthz-port is deprecated, and Kubernetes will remove it: give --healthz-bind-address instead'],
    );
  });

  it('have no effect where they are for Windows, and a flag without effect is one of kube-proxy', () => {
    const known = new Set(flags.map(({ name }) => name));
    for (const { name } of IDLE_FLAGS) assert.ok(known.has(name), name);
    const idle = IDLE_FLAGS.map(({ name }) => name);
    const ofWindows = flags.filter(({ platform }) => platform === 'windows');
    assert.ok(IDLE_FLAGS.length > 5 && ofWindows.length > 3, `${IDLE_FLAGS.length}, ${ofWindows.length} of Windows`);
    for (const { name } of ofWindows) assert.ok(idle.includes(name), name);
  });
});

describe('the fields of a KubeProxyConfiguration of 1.37', () => {
  it('are all known, with their types, and no others', () => {
    const sorted = (paths: readonly { readonly path: string }[]) => paths.map(({ path }) => path).sort();
    assert.deepEqual(sorted(FIELDS), sorted(fields));
    for (const { path, type } of fields) {
      const own = FIELDS.find((field) => field.path === path)?.type ?? '';
      assert.ok(TYPES[own]?.includes(type), `${path}: ${type} is ${own} here`);
    }
  });

  it('mean with kube-proxy’s defaults what a file without them means', () => {
    const file = (object: object) => {
      const value = { apiVersion: 'kubeproxy.config.k8s.io/v1alpha1', kind: 'KubeProxyConfiguration', ...object };
      const read = flagsFromFile({ values: [{ value, line: 1, repeated: [] }], problems: [] } as never, {});
      assert.deepEqual(read.lenient, []);
      const { given, ...rest } = settings(configFromFlags(read.flags, { origins: read.origins, file: 'f' }));
      return rest;
    };
    for (const mode of ['iptables', 'ipvs', 'nftables']) {
      const without = file({ mode });
      for (const { path, type, default: text } of fields) {
        if (text === undefined || path === 'mode' || path === 'logging.format') continue;
        const value = /^(bool|u?int32|float32)$/.test(type) ? JSON.parse(text) : text;
        const [section = '', name] = path.split('.');
        assert.deepEqual(
          file({ mode, [section]: name === undefined ? value : { [name]: value } }),
          without,
          `${mode}: ${path}`,
        );
      }
    }
  });
});

describe('the metrics of kube-proxy 1.37', () => {
  it('are served in the modes in which kube-proxy serves them, or the page says why not', async () => {
    const served = await ownMetrics();
    let compared = 0;
    for (const { name, modes } of metrics) {
      if (METRICS_APART[name] !== undefined) continue;
      for (const mode of modes) {
        const here = served.get(mode);
        if (here === undefined) continue;
        assert.ok(here.includes(name), `${name} in ${mode} mode`);
        compared += 1;
      }
    }
    assert.ok(compared > 30, `${compared} metrics in a mode`);
    for (const name of Object.keys(METRICS_APART))
      assert.ok(
        metrics.some((metric) => metric.name === name),
        name,
      );
  });
});

it('docs/reference/kube-proxy-flags.md is what scripts/kube-proxy-flags.ts makes of them', async () => {
  const isFresh = readFileSync(PAGE, 'utf8') === (await kubeProxyFlagsPage());
  assert.ok(isFresh, 'docs/reference/kube-proxy-flags.md is stale: run node scripts/kube-proxy-flags.ts');
});
