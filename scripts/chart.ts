/**
 * The parts of deploy/chart that follow from other files: the schema of `config` from the fields of a KubeProxyConfiguration, the
 * table of values in its README from the schema and values.yaml, and copies of deploy/monitoring and of the dashboard.
 *
 *   node scripts/chart.ts      writes them; a test compares them
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { FIELDS, type FieldType } from '../src/config/file-fields.ts';

const FOLDER = fileURLToPath(new URL('../deploy/chart', import.meta.url));
/** Files of the chart that are copies, and of what: a chart can read no file outside its folder. */
const COPIES: Readonly<Record<string, string>> = {
  'files/agent/podmonitor.yaml': '../monitoring/agent/podmonitor.yaml',
  'files/agent/rules.yaml': '../monitoring/agent/rules.yaml',
  'files/controller/podmonitor.yaml': '../monitoring/controller/podmonitor.yaml',
  'files/controller/rules.yaml': '../monitoring/controller/rules.yaml',
  'files/fleet/podmonitor.yaml': '../monitoring/fleet/podmonitor.yaml',
  'files/fleet/rules.yaml': '../monitoring/fleet/rules.yaml',
  'files/dashboard.json': '../grafana/slicewire.json',
};
const [BEGIN, END] = ['<!-- values: node scripts/chart.ts -->', '<!-- end of values -->'];

/** The part of JSON Schema (draft 7) that the chart uses. */
interface Schema {
  readonly description?: string;
  readonly type?: string | readonly string[];
  readonly pattern?: string;
  readonly items?: Schema;
  readonly additionalProperties?: boolean | Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
}

/** Fields that the chart sets itself, or that its flags override. */
const OWN = ['mode', 'clusterCIDR', 'clientConnection.kubeconfig', 'hostnameOverride'];

const DURATION = '^[+-]?(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$';

const TYPES: Readonly<Record<FieldType, Schema>> = {
  string: { type: 'string' },
  boolean: { type: 'boolean' },
  integer: { type: 'integer' },
  number: { type: 'number' },
  duration: { type: 'string', pattern: DURATION },
  'duration or nanoseconds': { type: ['string', 'integer'] },
  'list of strings': { type: 'array', items: { type: 'string' } },
  'map of booleans': { type: 'object', additionalProperties: { type: 'boolean' } },
  any: {},
};

const object = (properties: Readonly<Record<string, Schema>>): Schema => ({
  type: 'object',
  additionalProperties: false,
  properties,
});

/** The fields of a KubeProxyConfiguration that `config` may have. */
function configSchema(): Schema {
  const top: Record<string, Schema> = {};
  const sections: Record<string, Record<string, Schema>> = {};
  for (const { path, type } of FIELDS) {
    if (OWN.includes(path)) continue;
    const [section = '', name] = path.split('.');
    if (name === undefined) top[section] = TYPES[type];
    else sections[section] = { ...sections[section], [name]: TYPES[type] };
  }
  for (const [section, properties] of Object.entries(sections)) top[section] = object(properties);
  return object(top);
}

/** One row for each value; a map or a list is one value. */
function rows(schema: Schema, value: unknown, path: readonly string[] = []): string[] {
  const { description, properties } = schema;
  if (description !== undefined) {
    const shown = JSON.stringify(value)?.replaceAll('|', '\\|');
    return [`| \`${path.join('.')}\` | \`${shown}\` | ${description} |`];
  }
  return Object.entries(properties ?? {}).flatMap(([name, one]) => {
    const inner = typeof value === 'object' && value !== null ? Object.entries(value) : [];
    return rows(one, inner.find(([key]) => key === name)?.[1], [...path, name]);
  });
}

/** The text of each file of deploy/chart that has such a part, by its name. */
export function chartTexts(): Map<string, string> {
  const text = (name: string) => readFileSync(join(FOLDER, name), 'utf8');
  const given: Schema & { readonly properties: Readonly<Record<string, Schema>> } = JSON.parse(
    text('values.schema.json'),
  );
  const { description } = given.properties.config ?? {};
  const config = description === undefined ? configSchema() : { description, ...configSchema() };
  const schema: Schema = { ...given, properties: { ...given.properties, config } };
  const table = ['| value | default | meaning |', '| --- | --- | --- |', ...rows(schema, parse(text('values.yaml')))];
  const [before = '', after = ''] = text('README.md').split(new RegExp(`(?<=${BEGIN}\n)[\\s\\S]*(?=${END})`));
  return new Map([
    ['values.schema.json', `${JSON.stringify(schema, undefined, 2)}\n`],
    ['README.md', `${before}\n${table.join('\n')}\n\n${after}`],
    ...Object.entries(COPIES).map(([name, from]) => [name, text(from)] as const),
  ]);
}

if (import.meta.main) {
  for (const [name, text] of chartTexts()) {
    mkdirSync(dirname(join(FOLDER, name)), { recursive: true });
    writeFileSync(join(FOLDER, name), text);
  }
}
