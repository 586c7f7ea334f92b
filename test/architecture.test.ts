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

const PURE = ['src/proxy/model/', 'src/proxy/reconcile/', 'src/proxy/ledger/'] as const;

/** Files of `slicewire fleet` that listen, connect and follow the API server; the other files of the folder are pure. */
const FLEET_PROCESS = ['agent-stream', 'fleet-feed', 'fleet-process', 'link', 'server'].map(
  (name) => `src/fleet/${name}.ts`,
);
const FLEET_RULE: Rule = {
  imports: ['src/inspect/wire/', 'src/cluster/api/', 'src/config/', 'src/fleet/', 'src/proxy/model/'].concat(
    'src/serve/',
    'src/telemetry/',
  ),
  modules: ['node:http', 'node:os'],
};

/** The wings, each above those that it may import of. */
const WINGS = [
  ...[
    'native/',
    'src/base/',
    'src/kernel/',
    'src/proxy/',
    'src/cluster/',
    'src/inspect/',
    'src/serve/',
    'src/telemetry/',
  ],
  ...[
    'src/controller/',
    'src/config/',
    'src/agent/',
    'src/shadow/',
    'src/fleet/',
    'src/web/',
    'src/cli/',
    'src/main.ts',
  ],
];
const wingOf = (file: string) => WINGS.findIndex((wing) => file.startsWith(wing));

/** The innermost folder of a file decides. Beside these, all may import `src/base/`, but for the page and `native/`. */
const RULES: Readonly<Record<string, Rule>> = {
  'src/main.ts': { imports: ['src/cli/', 'src/kernel/'] },
  'src/cli/': {
    imports: [
      'src/agent/',
      'src/inspect/wire/',
      'src/cluster/api/',
      'src/config/',
      'src/controller/',
      'src/cli/demo/',
      'src/cluster/documents/',
    ]
      .concat(
        'src/cli/commands/',
        'src/fleet/drained/',
        'src/inspect/explain/',
        'src/fleet/',
        'src/shadow/',
        'src/inspect/history/',
        'src/kernel/',
        'src/cli/kubectl/',
        'src/cli/lab/',
        'src/inspect/replay/',
      )
      .concat(PURE)
      .concat('src/proxy/modes/', 'src/serve/', 'src/cluster/source/', 'src/proxy/sync/', 'src/telemetry/'),
    modules: ['commander', 'log-update', 'node:'],
  },
  'src/cli/kubectl/': {
    imports: ['src/inspect/wire/', 'src/cluster/api/', 'src/config/'],
    modules: ['commander', 'node:', 'ws', 'zod'],
  },
  'src/agent/': {
    imports: [
      'src/cluster/api/',
      'src/cluster/cache/',
      'src/config/',
      'src/cluster/documents/',
      'src/inspect/history/',
      'src/kernel/',
      'src/proxy/modes/',
    ]
      .concat(PURE)
      .concat(
        'src/inspect/wire/',
        'src/inspect/explain/',
        'src/agent/datapath/',
        'src/agent/failover/',
        'src/inspect/overview/',
        'src/agent/programmed/',
        'src/agent/relay/',
      )
      .concat('src/inspect/replay/', 'src/serve/', 'src/cluster/source/', 'src/proxy/sync/', 'src/telemetry/'),
    modules: ['node:'],
  },
  'src/shadow/': {
    imports: [
      'src/agent/',
      'src/cluster/documents/',
      'src/config/',
      'src/inspect/explain/',
      'src/inspect/wire/',
      'src/kernel/',
      'src/proxy/model/',
    ].concat('src/proxy/modes/netfilter/', 'src/serve/', 'src/telemetry/'),
    types: ['src/cluster/cache/', 'src/proxy/'],
  },
  'src/fleet/drained/': {
    imports: ['src/inspect/wire/', 'src/config/flags.ts', 'src/proxy/model/'],
    modules: ['node:'],
  },
  'src/cli/demo/': {
    imports: ['src/agent/cannot-run.ts', 'src/cluster/documents/', 'src/kernel/', 'src/cli/lab/'],
    types: ['src/proxy/model/modes.ts'],
    modules: ['node:'],
  },
  // Types of src/proxy/modes/, and its pure files, which the test below lists.
  'src/inspect/explain/': {
    imports: [
      ...PURE,
      'src/inspect/wire/envelope.ts',
      'src/inspect/wire/format.ts',
      'src/proxy/modes/nft-table/element-bytes.ts',
      'src/proxy/modes/nft-table/print.ts',
      'src/proxy/modes/netfilter/',
    ].concat('src/proxy/modes/virtual-servers/tracked-objects.ts', 'src/proxy/modes/virtual-servers/sets.ts'),
    types: ['src/proxy/modes/', 'src/kernel/', 'src/inspect/wire/'],
  },
  'src/inspect/overview/': {
    imports: [...PURE, 'src/inspect/wire/format.ts', 'src/inspect/explain/', 'src/proxy/modes/'],
    types: ['src/inspect/wire/', 'src/kernel/'],
  },
  'src/inspect/history/': {
    imports: [...PURE, 'src/inspect/wire/envelope.ts', 'src/inspect/wire/history.ts', 'src/inspect/wire/format.ts'],
    types: ['src/inspect/wire/', 'src/proxy/sync/'],
    modules: ['node:crypto', 'node:zlib', 'zod'],
  },
  'src/inspect/replay/': {
    imports: [
      ...PURE,
      'src/cluster/cache/',
      'src/inspect/history/',
      'src/kernel/iptables-tools.ts',
      'src/proxy/modes/',
    ].concat('src/proxy/sync/'),
    types: ['src/kernel/'],
  },
  // The forms, and with the files of the model that have texts of structures, the text of answers.
  'src/inspect/wire/': {
    imports: ['src/proxy/model/drift.ts', 'src/proxy/model/modes.ts', 'src/proxy/model/objects.ts'],
    modules: ['zod'],
  },
  // It runs in a browser: nothing of it may need Node.js, or bring in zod.
  'src/web/': {
    imports: ['fleet-delta', 'live-delta', 'shadow-text', 'status-text', 'format']
      .map((name) => `src/inspect/wire/${name}.ts`)
      .concat('src/proxy/model/drift.ts', 'src/proxy/model/objects.ts'),
    types: ['src/inspect/wire/'],
    modules: ['preact', 'preact/hooks', 'uplot'],
  },
  'src/cli/lab/': { imports: ['src/kernel/', 'src/proxy/model/'], modules: ['node:'] },
  'src/config/': {
    imports: ['src/cluster/documents/', 'src/proxy/model/', 'package.json'],
    types: ['src/kernel/', 'src/controller/', 'src/proxy/modes/', 'src/cluster/api/'],
    modules: ['node:os'],
  },
  'src/cli/commands/': { imports: ['src/config/', 'src/proxy/model/modes.ts'] },
  'src/cluster/source/': {
    imports: ['src/cluster/api/', 'src/cluster/documents/', 'src/cluster/producers/', 'src/proxy/model/'],
    types: ['src/kernel/listeners.ts'],
    modules: ['node:'],
  },
  'src/cluster/api/': {
    imports: ['src/cluster/documents/', 'src/proxy/model/'],
    types: ['src/cluster/producers/'],
    modules: ['node:', '@kubernetes/client-node', 'pbf', 'zod/mini'],
  },
  'src/base/': { modules: ['ipaddr.js', 'node:timers/promises'] },
  'src/cluster/documents/': { modules: ['node:', 'yaml'] },
  'src/cluster/producers/': { imports: ['src/proxy/model/'] },
  'src/controller/': {
    imports: [
      'src/cluster/producers/',
      'src/proxy/model/',
      'src/cluster/api/',
      'src/serve/',
      'src/telemetry/registry.ts',
    ],
    modules: ['node:crypto'],
  },
  'src/cluster/cache/': { imports: ['src/proxy/model/'], types: ['src/proxy/sync/'] },
  'src/proxy/model/': {},
  'src/proxy/reconcile/': {},
  'src/proxy/ledger/': { imports: ['src/proxy/model/'], types: ['src/proxy/reconcile/'] },
  'src/proxy/sync/': {
    imports: [...PURE],
    types: ['src/proxy/modes/mode.ts', 'src/kernel/'],
  },
  'src/fleet/': {
    imports: ['src/proxy/model/', 'src/inspect/wire/envelope.ts'],
    types: ['src/inspect/wire/'],
  },
  ...Object.fromEntries(FLEET_PROCESS.map((file) => [file, FLEET_RULE])),
  'src/serve/': {
    imports: ['src/inspect/wire/envelope.ts', 'src/proxy/model/'],
    modules: ['node:'],
  },
  'src/agent/programmed/': { imports: ['src/proxy/model/', 'src/proxy/ledger/'], types: ['src/inspect/wire/'] },
  'src/agent/failover/': {
    imports: ['src/proxy/model/'],
    types: ['src/kernel/conntrack.ts'],
    modules: ['node:net'],
  },
  'src/agent/relay/': { imports: ['src/proxy/model/'], modules: ['node:net'] },
  'src/agent/datapath/': {
    imports: ['src/proxy/model/'],
    types: ['src/kernel/pod-network.ts'],
    modules: ['node:crypto', 'node:net'],
  },
  'src/telemetry/': {
    imports: ['src/proxy/model/'],
    types: ['src/serve/clients.ts'],
    modules: ['pino', 'pino-pretty', 'prom-client', 'node:'],
  },
  'src/kernel/': { imports: ['native/'], modules: ['node:', 'execa'] },
  'native/': { modules: ['node:'] },
  // The files of the folder itself, without the folders below it.
  'src/proxy/modes/': { imports: [...PURE, 'src/kernel/'], types: ['src/proxy/modes/netfilter/rules.ts'] },
  'src/proxy/modes/netfilter/': {
    imports: [...PURE, 'src/proxy/modes/families.ts', 'src/proxy/modes/mode.ts', 'src/kernel/'],
    types: ['src/proxy/modes/'],
    modules: ['node:crypto'],
  },
  'src/proxy/modes/virtual-servers/': {
    imports: [
      ...PURE,
      'src/proxy/modes/families.ts',
      'src/proxy/modes/kernel-settings.ts',
      'src/proxy/modes/mode.ts',
      'src/kernel/',
    ].concat('src/proxy/modes/netfilter/'),
    types: ['src/proxy/modes/'],
  },
  'src/proxy/modes/way-back/': {
    imports: ['src/proxy/modes/families.ts', 'src/proxy/modes/netfilter/', 'src/proxy/modes/virtual-servers/'],
    types: ['src/proxy/modes/mode.ts', 'src/kernel/'],
  },
  'src/proxy/modes/nft-table/': { imports: [...PURE, 'src/kernel/'], types: ['src/proxy/modes/'] },
  'src/proxy/modes/iptables/': {
    imports: [
      ...PURE,
      'src/proxy/modes/families.ts',
      'src/proxy/modes/kernel-settings.ts',
      'src/proxy/modes/netfilter/',
    ],
    types: ['src/proxy/modes/inspection.ts', 'src/proxy/modes/mode.ts', 'src/kernel/'],
  },
  'src/proxy/modes/ipvs/': {
    imports: [...PURE, 'src/proxy/modes/families.ts', 'src/proxy/modes/netfilter/', 'src/proxy/modes/virtual-servers/'],
    types: ['src/proxy/modes/inspection.ts', 'src/proxy/modes/mode.ts', 'src/kernel/'],
  },
  'src/proxy/modes/nftables/': {
    imports: [
      ...PURE,
      'src/proxy/modes/families.ts',
      'src/proxy/modes/mode.ts',
      'src/proxy/modes/netfilter/',
      'src/proxy/modes/nft-table/',
    ],
    types: ['src/proxy/modes/inspection.ts', 'src/kernel/'],
    modules: ['node:crypto'],
  },
};

/** `namesIn('ipvs', 'desire render')`: files of a folder of modes. */
function namesIn(folder: string, names: string): string[] {
  return names.split(/\s+/).map((name) => `${folder}/${name}`);
}

/** Files of modes that read or write the kernel, or put such parts together. */
const ACTING = [
  ...['families', 'handover', 'inspect', 'kernel-settings', 'node-part', 'iptables/index', 'ipvs/index'],
  'nftables/index',
  ...namesIn('way-back', 'kept way-back'),
  ...namesIn(
    'netfilter',
    `apply change-detection every-chain family-rules inspect observe rule-connections rules-family`,
  ),
  ...namesIn('virtual-servers', 'apply inspect node-parts observe servers-family'),
  ...namesIn('nft-table', 'inspect remembered table'),
];
/** Files of modes that do no I/O, read no clock and log nothing: they may import each other, and types. */
const PURE_FILES = [
  'mode',
  'inspection',
  'view',
  ...namesIn('iptables', 'desire render static-chains'),
  ...namesIn('ipvs', 'desire render static-chains'),
  ...namesIn('nftables', 'balancers chains check desire limits render table-layout'),
  ...namesIn(
    'netfilter',
    `balancer dispatch-tree jumps key-space local-traffic names plan restore-text rules
     rules-view`,
  ),
  ...namesIn('virtual-servers', 'plan servers-view sets source-chain state tracked-objects'),
  ...namesIn(
    'nft-table',
    `any-table digest element-bytes element-rows element-table groups layout nft-text pending plan print
     state table-view`,
  ),
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
    const isOfAll = inside(to, 'src/base/') && !inside(from, 'native/', 'src/web/');
    return ruleOf(to) === folder || isOfAll || inside(to, ...imports) || (isTypeOnly && inside(to, ...types));
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
  it('are found: over 250 files and 1500 imports', () => {
    assert.ok(FILES.length > 250 && IMPORTS.length > 1500, `${FILES.length} files, ${IMPORTS.length} imports`);
  });

  it('every folder has a rule, and every rule a folder', () => {
    const folders = new Set(FILES.map((file) => (file === 'src/main.ts' ? file : `${dirname(file)}/`)));
    const without = [...folders].filter((folder) => ruleOf(folder) === undefined);
    const modes = [...folders].filter((folder) => /^src\/proxy\/modes\/./.test(folder) && RULES[folder] === undefined);
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

  it('lead from each wing to wings below it', () => {
    assert.deepEqual(
      IMPORTS.filter(({ from, to }) => FILES.includes(to) && wingOf(to) > wingOf(from)),
      [],
    );
    assert.deepEqual(
      FILES.filter((file) => wingOf(file) < 0),
      [],
    );
  });

  it('make no circle, of values or types', () => {
    assert.equal(circle(IMPORTS), undefined);
    const back = { from: 'src/base/address.ts', to: 'src/main.ts', isTypeOnly: false, isLate: false };
    assert.ok(circle([...IMPORTS, back])?.includes('src/main.ts'), 'it would be found');
  });

  it('no mode imports another', () => {
    const modes = ['iptables', 'ipvs', 'nftables'].map((mode) => `src/proxy/modes/${mode}/`);
    const bad = IMPORTS.filter(({ from, to }) =>
      modes.some((own) => inside(from, own) && !inside(to, own) && inside(to, ...modes)),
    );
    assert.deepEqual(bad, []);
  });
});

/** Folders without a clock or I/O of their own, beside `src/proxy/model/` and `src/proxy/reconcile/`; facts and time come in as values or calls. */
const PURE_FOLDERS = [
  ...PURE,
  ...['agent/programmed', 'cluster/producers', 'inspect/explain', 'inspect/overview', 'inspect/wire'].map(
    (name) => `src/${name}/`,
  ),
  'src/fleet/',
];

describe('pure folders', () => {
  const isPure = (file: string) =>
    inside(file, ...PURE_FOLDERS) && !inside(file, ...FLEET_PROCESS, 'src/fleet/drained/');
  const files = FILES.filter(isPure);

  it('are not empty, and stand in docs/architecture.md as pure or not at all', () => {
    for (const folder of PURE_FOLDERS)
      assert.ok(
        files.some((file) => file.startsWith(folder)),
        folder,
      );
  });

  it('read no clock', () => {
    const reads = (file: string) =>
      /performance\.now|Date\.now|new Date\(\)/.test(readFileSync(join(ROOT, file), 'utf8'));
    assert.deepEqual(files.filter(reads), []);
    assert.deepEqual(
      IMPORTS.filter(({ from, to, isTypeOnly }) => isPure(from) && to === 'src/base/clock.ts' && !isTypeOnly),
      [],
    );
  });

  it('import no module of Node.js but for hashes', () => {
    const bad = IMPORTS.filter(({ from, to }) => isPure(from) && to.startsWith('node:') && to !== 'node:crypto');
    assert.deepEqual(bad, []);
  });
});

describe('docs/architecture.md', () => {
  const text = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8');
  /** The first column of the tables of wings, as folders. */
  const rows = [...text.matchAll(/^\| (`src\/.*?`(?:, `[^`]+`)*) \|/gm)].flatMap(([, cell = '']) => {
    const [first = '', ...more] = [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
    const beside = first.slice(0, first.slice(0, -1).lastIndexOf('/') + 1);
    return [first, ...more.map((name) => beside + name)];
  });

  it('has a row for each folder with a rule, and a rule for each row', () => {
    const ruled = Object.keys(RULES).filter((name) => name.endsWith('/') && name.startsWith('src/'));
    assert.ok(ruled.length > 30, `${ruled.length} rules`);
    assert.deepEqual(rows.toSorted(), ruled.toSorted());
  });
});

describe('files of modes', () => {
  const named = [...ACTING, ...PURE_FILES].map((name) => `src/proxy/modes/${name}.ts`);
  const pure = new Set(PURE_FILES.map((name) => `src/proxy/modes/${name}.ts`));

  it('are each in one list: those that act on the kernel, or the pure ones', () => {
    assert.deepEqual(
      named.toSorted(),
      FILES.filter((file) => inside(file, 'src/proxy/modes/')),
    );
  });

  it('that are pure import pure ones, and types', () => {
    const bad = IMPORTS.filter(({ from, to, isTypeOnly }) => {
      const isPure = pure.has(to) || inside(to, ...PURE, 'src/base/') || to === 'node:crypto';
      return pure.has(from) && !isTypeOnly && !isPure;
    });
    assert.deepEqual(bad, []);
  });

  it('that are pure wait for nothing, as the whole model does', () => {
    const waits = ['src/base/clock.ts', 'src/base/portions.ts'];
    const bad = IMPORTS.filter(
      ({ from, to, isTypeOnly }) => (pure.has(from) || inside(from, ...PURE)) && waits.includes(to) && !isTypeOnly,
    );
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
  it('only kernel/ starts processes', () => {
    assert.deepEqual(strays(/^(execa|node:child_process)$/, 'src/kernel/'), []);
  });

  it('only kernel/, cluster/, agent/, cli/, fleet/drained/ and native/ read or write files', () => {
    const folders = ['kernel', 'cluster', 'agent', 'cli', 'fleet/drained'].map((name) => `src/${name}/`);
    assert.deepEqual(strays(/^node:fs/, ...folders, 'native/'), []);
  });

  it('only cluster/documents/yaml.ts knows YAML', () => {
    assert.deepEqual(strays(/^(yaml|js-yaml)$/, 'src/cluster/documents/yaml.ts'), []);
  });

  it('only files with code for each mode compare names of modes; the others ask proxy/model/modes.ts', () => {
    const ofEachMode = [
      'agent/choose-mode',
      'agent/questions/explain-facts',
      'cli/demo/steps',
      'cli/init',
      'inspect/history/anonymize',
      'inspect/replay/replay-recording',
    ].map((name) => `src/${name}.ts`);
    const compares =
      /\bmode\)? [!=]== '(?:iptables|ipvs|nftables)'|'(?:iptables|ipvs|nftables)' [!=]== \w*\.?mode\b|switch \(\w*\.?mode\)/;
    const found = FILES.filter((file) => compares.test(readFileSync(join(ROOT, file), 'utf8')));
    assert.deepEqual(found.sort(), ofEachMode);
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
