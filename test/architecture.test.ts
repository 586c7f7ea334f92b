/** Who may import whom (docs/architecture.md). When this test is in the way, the structure is probably being bent. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Import, importsOf, sourceFiles } from '../scripts/imports.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

const FILES = sourceFiles('src', 'native');
const IMPORTS = FILES.flatMap(importsOf);

const inside = (file: string, ...folders: readonly string[]) => folders.some((folder) => file.startsWith(folder));

/** What the files of a folder may import beside each other. */
interface Rule {
  /** Folders and files of the repository. */
  readonly imports?: readonly string[];
  /** The same, for types alone. */
  readonly types?: readonly string[];
  /** Packages, and modules of Node.js; `node:` allows all of them but those that only some folders may have (below). */
  readonly modules?: readonly string[];
}

const PURE = ['src/model/', 'src/reconcile/'] as const;

/** Files of `slicewire fleet` that listen, connect and follow the API server; the other files of the folder are pure. */
const FLEET_PROCESS = ['agent-places', 'event-lines', 'feed', 'link', 'links', 'questions', 'run', 'server'].map(
  (name) => `src/fleet/${name}.ts`,
);
const FLEET_RULE: Rule = {
  imports: ['src/answers/', 'src/api/', 'src/config/', 'src/fleet/', 'src/host/clock.ts', 'src/model/'].concat(
    'src/serve/',
    'src/telemetry/',
  ),
  modules: ['node:http', 'node:os'],
};

/** The innermost folder of a file decides. */
const RULES: Readonly<Record<string, Rule>> = {
  'src/main.ts': { imports: ['src/cli/', 'src/host/'] },
  'src/cli/': {
    imports: ['src/agent/', 'src/answers/', 'src/api/', 'src/config/', 'src/controller/', 'src/demo/', 'src/documents/']
      .concat(
        'src/commands/',
        'src/drained/',
        'src/explain/',
        'src/fleet/',
        'src/history/',
        'src/host/',
        'src/kubectl/',
        'src/lab/',
        'src/replay/',
      )
      .concat(PURE)
      .concat('src/modes/', 'src/serve/', 'src/source/', 'src/sync/', 'src/telemetry/'),
    modules: ['commander', 'log-update', 'node:'],
  },
  'src/kubectl/': {
    imports: ['src/answers/', 'src/api/', 'src/config/', 'src/host/clock.ts', 'src/model/cause.ts'],
    modules: ['commander', 'node:', 'ws', 'zod'],
  },
  'src/agent/': {
    imports: ['src/api/', 'src/cache/', 'src/config/', 'src/documents/', 'src/history/', 'src/host/', 'src/modes/']
      .concat(PURE)
      .concat('src/answers/', 'src/explain/', 'src/failover/', 'src/overview/', 'src/programmed/', 'src/relay/')
      .concat('src/replay/', 'src/serve/', 'src/source/', 'src/sync/', 'src/telemetry/'),
    modules: ['node:'],
  },
  'src/drained/': {
    imports: ['src/answers/', 'src/config/duration.ts', 'src/config/flags.ts', 'src/host/clock.ts', 'src/model/'],
    modules: ['node:'],
  },
  'src/demo/': {
    imports: ['src/agent/cannot-run.ts', 'src/documents/', 'src/host/', 'src/lab/'],
    modules: ['node:'],
  },
  // Types of src/modes/, and its pure files, which the test below lists.
  'src/explain/': {
    imports: [
      ...PURE,
      'src/answers/words.ts',
      'src/modes/nft-table/bytes.ts',
      'src/modes/nft-table/print.ts',
      'src/modes/netfilter/',
    ].concat('src/modes/virtual-servers/objects.ts', 'src/modes/virtual-servers/sets.ts'),
    types: ['src/modes/', 'src/host/', 'src/answers/'],
  },
  'src/overview/': {
    imports: [...PURE, 'src/answers/words.ts', 'src/explain/', 'src/modes/'],
    types: ['src/answers/', 'src/host/'],
  },
  'src/history/': {
    imports: [...PURE, 'src/answers/head.ts', 'src/answers/history.ts', 'src/answers/words.ts', 'src/host/clock.ts'],
    types: ['src/answers/', 'src/sync/'],
    modules: ['node:crypto', 'node:zlib', 'zod'],
  },
  'src/replay/': {
    imports: [
      ...PURE,
      'src/cache/',
      'src/history/',
      'src/host/clock.ts',
      'src/host/iptables-tools.ts',
      'src/modes/',
    ].concat('src/sync/'),
    types: ['src/host/'],
  },
  // The forms, and with the files of the model that have texts of structures, the text of answers.
  'src/answers/': {
    imports: ['src/config/moments.ts', 'src/model/drift.ts', 'src/model/objects.ts'],
    modules: ['zod'],
  },
  // It runs in a browser: nothing of it may need Node.js, or bring in zod.
  'src/page/': {
    imports: ['fleet-delta', 'live-delta', 'status-text', 'words']
      .map((name) => `src/answers/${name}.ts`)
      .concat('src/model/drift.ts', 'src/model/objects.ts'),
    types: ['src/answers/'],
    modules: ['preact', 'preact/hooks', 'uplot'],
  },
  'src/lab/': { imports: ['src/host/', 'src/model/'], modules: ['node:'] },
  'src/config/': {
    imports: ['src/documents/', 'src/model/', 'package.json'],
    types: ['src/host/', 'src/controller/', 'src/modes/', 'src/api/'],
    modules: ['node:os'],
  },
  'src/commands/': { imports: ['src/config/'] },
  'src/source/': {
    imports: ['src/api/', 'src/documents/', 'src/producers/', 'src/model/', 'src/host/clock.ts'],
    modules: ['node:'],
  },
  'src/api/': {
    imports: ['src/documents/', 'src/model/', 'src/host/clock.ts'],
    types: ['src/producers/'],
    modules: ['node:', '@kubernetes/client-node', 'pbf', 'zod/mini'],
  },
  'src/documents/': { modules: ['node:', 'yaml'] },
  'src/producers/': { imports: ['src/model/'] },
  'src/controller/': {
    imports: ['src/producers/', 'src/model/', 'src/api/', 'src/host/clock.ts'],
    modules: ['node:crypto'],
  },
  'src/cache/': { imports: ['src/model/'], types: ['src/sync/'] },
  'src/model/': { modules: ['ipaddr.js'] },
  'src/reconcile/': {},
  'src/sync/': {
    imports: [...PURE, 'src/host/clock.ts', 'src/host/portions.ts'],
    types: ['src/modes/mode.ts', 'src/host/'],
  },
  'src/fleet/': {
    imports: ['src/model/', 'src/answers/head.ts', 'src/answers/problem.ts', 'src/host/clock.ts'],
    types: ['src/answers/'],
  },
  ...Object.fromEntries(FLEET_PROCESS.map((file) => [file, FLEET_RULE])),
  'src/serve/': { imports: ['src/answers/problem.ts', 'src/model/', 'src/host/clock.ts'], modules: ['node:'] },
  'src/programmed/': { imports: ['src/model/'], types: ['src/answers/', 'src/host/clock.ts'] },
  'src/failover/': {
    imports: ['src/model/', 'src/host/clock.ts'],
    types: ['src/host/conntrack.ts'],
    modules: ['node:net'],
  },
  'src/relay/': { imports: ['src/model/', 'src/host/clock.ts'], modules: ['node:net'] },
  'src/telemetry/': {
    imports: ['src/model/'],
    types: ['src/host/clock.ts'],
    modules: ['pino', 'pino-pretty', 'prom-client', 'node:'],
  },
  'src/host/': { imports: [...PURE, 'native/'], modules: ['node:', 'execa'] },
  'native/': { modules: ['node:'] },
  // The files of the folder itself, without the folders below it.
  'src/modes/': { imports: [...PURE, 'src/host/'], types: ['src/modes/netfilter/rules.ts'] },
  'src/modes/netfilter/': {
    imports: [...PURE, 'src/modes/families.ts', 'src/modes/mode.ts', 'src/host/'],
    types: ['src/modes/'],
    modules: ['node:crypto'],
  },
  'src/modes/virtual-servers/': {
    imports: [
      ...PURE,
      'src/modes/families.ts',
      'src/modes/kernel-settings.ts',
      'src/modes/mode.ts',
      'src/host/',
    ].concat('src/modes/netfilter/'),
    types: ['src/modes/'],
  },
  'src/modes/nft-table/': { imports: [...PURE, 'src/host/'], types: ['src/modes/'] },
  'src/modes/iptables/': {
    imports: [...PURE, 'src/modes/families.ts', 'src/modes/kernel-settings.ts', 'src/modes/netfilter/'],
    types: ['src/modes/inspection.ts', 'src/modes/mode.ts', 'src/host/'],
  },
  'src/modes/ipvs/': {
    imports: [...PURE, 'src/modes/families.ts', 'src/modes/netfilter/', 'src/modes/virtual-servers/'],
    types: ['src/modes/inspection.ts', 'src/modes/mode.ts', 'src/host/'],
  },
  'src/modes/nftables/': {
    imports: [...PURE, 'src/modes/families.ts', 'src/modes/mode.ts', 'src/modes/netfilter/', 'src/modes/nft-table/'],
    types: ['src/modes/cleanup.ts', 'src/modes/inspection.ts', 'src/host/'],
    modules: ['node:crypto'],
  },
};

/** Files of modes that read or write the kernel, or put such parts together. */
const ACTING = [
  ...['families', 'handover', 'cleanup', 'inspect', 'kernel-settings', 'node-part', 'iptables/index', 'ipvs/index'],
  ...['nftables/index', 'nftables/predecessor'],
  ...['apply', 'cleanup', 'inspect', 'observe', 'packet-counts', 'rules-family', 'standing', 'family-rules']
    .concat('heard-rules', 'rule-connections', 'touched-chains')
    .map((n) => `netfilter/${n}`),
  ...['apply', 'cleanup', 'device', 'node', 'observe', 'servers-family', 'timeouts', 'inspect'].map(
    (n) => `virtual-servers/${n}`,
  ),
  ...['apply', 'table', 'inspect', 'remembered'].map((name) => `nft-table/${name}`),
];
/** Files of modes that do no I/O, read no clock and log nothing: they may import each other, and types. */
const PURE_FILES = [
  ...['mode', 'inspection', 'view'],
  ...['desire', 'jumps', 'names', 'render', 'settings', 'static-chains'].map((name) => `iptables/${name}`),
  ...['desire', 'jumps', 'render', 'settings', 'static-chains'].map((name) => `ipvs/${name}`),
  ...['balancers', 'chains', 'check', 'desire', 'layout', 'names', 'observe', 'render', 'settings', 'sticky'].map(
    (name) => `nftables/${name}`,
  ),
  ...[
    'balancer',
    'counted-rules',
    'dispatch-tree',
    'endpoint-groups',
    'hash',
    'jumps',
    'key-space',
    'local-traffic',
    'localnet',
    'names',
    'order',
    'plan',
  ]
    .concat(
      'portions',
      'recent',
      'rule-frontends',
      'restore-text',
      'rule-totals',
      'rules',
      'rules-view',
      'settings',
      'static-chains',
      'udp-frontends',
    )
    .map((name) => `netfilter/${name}`),
  ...[
    'objects',
    'plan',
    'server-index',
    'servers-view',
    'set-sizes',
    'sets',
    'settings',
    'source-chain',
    'state',
    'steps',
    'trackers',
    'writes',
  ].map((name) => `virtual-servers/${name}`),
  ...['bytes', 'canonical', 'correct', 'digest', 'groups', 'half-sip-hash', 'idle', 'layout', 'plan', 'print', 'state']
    .concat(
      'columns',
      'element-rows',
      'element-table',
      'elements-view',
      'key-rows',
      'parts',
      'row-states',
      'table-view',
    )
    .map((name) => `nft-table/${name}`),
];

/** The folder, or file, whose rule counts for a file. */
function ruleOf(file: string): string | undefined {
  const names = Object.keys(RULES).filter((name) => file.startsWith(name));
  return names.sort((a, b) => b.length - a.length)[0];
}

function isAllowed({ from, to, isTypeOnly }: Import): boolean {
  const folder = ruleOf(from) ?? '';
  const { imports = [], types = [], modules = [] } = RULES[folder] ?? {};
  if (FILES.includes(to) || to === 'package.json') {
    return ruleOf(to) === folder || inside(to, ...imports) || (isTypeOnly && inside(to, ...types));
  }
  return modules.some((name) => to === name || (name === 'node:' && to.startsWith(name)));
}

/** A circle of imports, types included; undefined: there is none. */
function circle(imports: readonly Import[]): readonly string[] | undefined {
  const byFile = Map.groupBy(imports, ({ from }) => from);
  const done = new Set<string>();
  const visit = (file: string, above: readonly string[]): readonly string[] | undefined => {
    if (above.includes(file)) return [...above.slice(above.indexOf(file)), file];
    if (done.has(file)) return undefined;
    for (const { to } of byFile.get(file) ?? []) {
      const found = visit(to, [...above, file]);
      if (found !== undefined) return found;
    }
    done.add(file);
    return undefined;
  };
  return [...byFile.keys()].map((file) => visit(file, [])).find((found) => found !== undefined);
}

/** Imports of these modules outside these folders. */
function strays(modules: RegExp, ...folders: readonly string[]): readonly Import[] {
  return IMPORTS.filter(({ from, to }) => modules.test(to) && !inside(from, ...folders));
}

describe('imports', () => {
  it('are found', () => {
    assert.ok(FILES.length > 250 && IMPORTS.length > 1500, `${FILES.length} files, ${IMPORTS.length} imports`);
  });

  it('every folder has a rule, and every rule a folder', () => {
    const folders = new Set(FILES.map((file) => (file === 'src/main.ts' ? file : `${dirname(file)}/`)));
    const without = [...folders].filter((folder) => ruleOf(folder) === undefined);
    const modes = [...folders].filter((folder) => /^src\/modes\/./.test(folder) && RULES[folder] === undefined);
    assert.deepEqual([...without, ...modes], []);
    assert.deepEqual(
      Object.keys(RULES).filter((name) => !FILES.some((file) => file.startsWith(name))),
      [],
    );
  });

  for (const folder of Object.keys(RULES)) {
    it(`of ${folder} are those that its rule allows`, () => {
      assert.deepEqual(
        IMPORTS.filter((each) => ruleOf(each.from) === folder && !isAllowed(each)),
        [],
      );
    });
  }

  it('make no circle, of values or types', () => {
    assert.equal(circle(IMPORTS), undefined);
    const back = { from: 'src/model/address.ts', to: 'src/main.ts', isTypeOnly: false, isLate: false };
    assert.ok(circle([...IMPORTS, back])?.includes('src/main.ts'), 'it would be found');
  });

  it('no mode imports another', () => {
    const modes = ['iptables', 'ipvs', 'nftables'].map((mode) => `src/modes/${mode}/`);
    const bad = IMPORTS.filter(({ from, to }) =>
      modes.some((own) => inside(from, own) && !inside(to, own) && inside(to, ...modes)),
    );
    assert.deepEqual(bad, []);
  });
});

describe('files of modes', () => {
  const named = [...ACTING, ...PURE_FILES].map((name) => `src/modes/${name}.ts`);
  const pure = new Set(PURE_FILES.map((name) => `src/modes/${name}.ts`));

  it('are each in one list: those that act on the kernel, or the pure ones', () => {
    assert.deepEqual(
      named.toSorted(),
      FILES.filter((file) => inside(file, 'src/modes/')),
    );
  });

  it('that are pure import pure ones, and types', () => {
    const bad = IMPORTS.filter(({ from, to, isTypeOnly }) => {
      const isPure = pure.has(to) || inside(to, ...PURE) || to === 'node:crypto';
      return pure.has(from) && !isTypeOnly && !isPure;
    });
    assert.deepEqual(bad, []);
  });

  it('that are pure read no clock', () => {
    const bad = [...pure].filter((file) =>
      /performance\.now|Date\.now|new Date\(\)/.test(readFileSync(join(ROOT, file), 'utf8')),
    );
    assert.deepEqual(bad, []);
  });
});

describe('what one folder alone may do', () => {
  it('only host/ starts processes', () => {
    assert.deepEqual(strays(/^(execa|node:child_process)$/, 'src/host/'), []);
  });

  it('only host/, agent/, source/, api/, cli/, demo/, drained/, lab/, documents/ and native/ read or write files', () => {
    const names = ['host', 'agent', 'source', 'api', 'cli', 'demo', 'drained', 'lab', 'documents'];
    const folders = names.map((name) => `src/${name}/`);
    assert.deepEqual(strays(/^node:fs/, ...folders, 'native/'), []);
  });

  it('only documents/yaml.ts knows YAML', () => {
    assert.deepEqual(strays(/^(yaml|js-yaml)$/, 'src/documents/yaml.ts'), []);
  });

  it('only native/libc.ts knows of the foreign-function module', () => {
    const knows = FILES.filter((file) => /'(node:ffi|koffi)'/.test(readFileSync(join(ROOT, file), 'utf8')));
    assert.deepEqual(knows, ['native/libc.ts']);
  });
});

/** Folders whose files may not lead out of the repository. */
const CLOSED = ['src', 'native', 'test', 'scripts', 'deploy', 'docs', 'systemd', '.ci', '.github'];

/** Paths in a file that begin with `..` and end outside the repository, and folders that one machine has. */
function pathsOut(file: string): string[] {
  const text = readFileSync(join(ROOT, file), 'utf8');
  const relatives = [...text.matchAll(/(?<![\w.@-])\.\.?(?:\/[\w.@-]+)*\/\.\.(?:\/[\w.@-]+)*|\.\.\/[\w./@-]+/g)]
    .map(([path]) => path)
    .filter((path) => relative(ROOT, resolve(ROOT, dirname(file), path)).startsWith('..'));
  const absolutes = [...text.matchAll(/(?<![\w.:/-])\/(?:work|home)\/\w[\w./-]*/g)].map(([path]) => path);
  return [...relatives, ...absolutes].map((path) => `${file}: ${path}`);
}

describe('the repository', () => {
  it('refers to nothing that is beside it', () => {
    const files = CLOSED.flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => relative(ROOT, join(entry.parentPath, entry.name))),
    );
    assert.ok(files.includes('.ci/run') && files.length > 400, `${files.length} files`);
    assert.deepEqual(files.flatMap(pathsOut), []);
  });
});
