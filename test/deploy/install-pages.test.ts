/** docs/install* and docs/fleet.md: what the pages tell people to type is right as far as it can be checked without the clusters that they are about. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { describe, it } from 'node:test';
import { Command } from 'commander';
import { parse, parseAllDocuments } from 'yaml';
import { goArguments, withFlags } from '../../src/cli/command-line.ts';
import { COMMANDS } from '../../src/cli/commands/command-table.ts';
import { configFromFlags } from '../../src/config/from-flags.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { flagsFromText } from '../helpers/cluster/documents/documents.ts';
import { HELM, options, rendered } from '../helpers/deploy/chart.ts';
import { kustomize, NO_KUBECTL } from '../helpers/deploy/deployed.ts';
import { anchorsOf, blocksOf, commandsOf, languagesOf, linksOf, pageOf, wordsOf } from '../helpers/docs/pages.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const ROOT = new URL('../../', import.meta.url);
const INDEX = pageOf('docs/install.md');
const WAYS = [
  ...readdirSync(new URL('docs/install', ROOT)).map((name) => pageOf(`docs/install/${name}`)),
  pageOf('docs/fleet.md'),
];
const PAGES = [INDEX, ...WAYS, pageOf('deploy/chart/README.md')];
const SERVER = 'https://control-plane.example:6443';

/** All commands of a page that begin with these words. */
const commands = (page: (typeof PAGES)[number], ...words: readonly string[]) =>
  blocksOf(page, 'sh')
    .flatMap(commandsOf)
    .filter((command) => words.every((word, index) => command[index] === word));

/** `a.b.c: value` of each value in a document. */
function pathsOf(value: unknown, path = ''): string[] {
  if (typeof value !== 'object' || value === null) return [`${path}: ${JSON.stringify(value)}`];
  return Object.entries(value).flatMap(([name, one]) => pathsOf(one, path === '' ? name : `${path}.${name}`));
}

/** Each document of the YAML of a page. */
const documentsOf = (page: (typeof PAGES)[number]) =>
  blocksOf(page, 'yaml').flatMap((block) =>
    parseAllDocuments(block).map((document) => {
      assert.deepEqual(document.errors, [], `${page.path}: ${block}`);
      return { text: String(document), value: document.toJS() };
    }),
  );

/** How much the tests of all pages found to check: a page need not have everything, and all of them together have each thing. */
const seen = {
  files: 0,
  patches: 0,
  configurations: 0,
  folders: 0,
  objects: 0,
  values: 0,
  commands: 0,
  replacements: 0,
};

describe('docs/install.md', () => {
  it('has a row for each page, and each page does what its row says', () => {
    const rows = [
      ...INDEX.text.matchAll(/^\| [^|]+ \| ([^|]+) \| \[[^\]]+\]\(((?:install\/[\w-]+|fleet)\.md)\) \|$/gm),
    ];
    assert.deepEqual(rows.map(([, , path]) => `docs/${path}`).sort(), WAYS.map(({ path }) => path).sort());
    for (const [, how = '', path] of rows) {
      const page = pageOf(`docs/${path}`);
      const said = documentsOf(page).flatMap(({ value }) => pathsOf(value));
      for (const [, code = ''] of how.matchAll(/`([^`]+)`/g)) {
        const isSaid = page.text.includes(code) || said.some((one) => one.endsWith(code));
        assert.ok(isSaid, `${page.path} does not have ${code}`);
      }
    }
  });
});

for (const page of PAGES) {
  describe(page.path, () => {
    it('links to what there is', () => {
      const links = linksOf(page);
      assert.notEqual(links.length, 0, page.path);
      for (const { path, anchor } of links) {
        assert.ok(existsSync(new URL(path, ROOT)), path);
        if (anchor !== '') assert.ok(anchorsOf(pageOf(path)).includes(anchor), `${path}#${anchor}`);
      }
    });

    it('names files of the repository that there are', () => {
      const named = page.text
        .replaceAll(/\]\([^)]*\)/g, '')
        .matchAll(/(?<![\w./-])(?:deploy|systemd|docs)\/[\w./-]*\w/g);
      for (const [path] of named) {
        assert.ok(existsSync(new URL(path, ROOT)), path);
        seen.files += 1;
      }
    });

    it('has shell that a shell can read, and no block in another language than sh, yaml and json', async () => {
      assert.deepEqual(
        languagesOf(page).filter((name) => !['sh', 'yaml', 'json'].includes(name)),
        [],
      );
      for (const block of blocksOf(page, 'sh')) {
        const lines = () => block.split('\n');
        const { stderr } = await realCommands.run({ file: 'bash', args: ['-n'], input: lines }, NEVER);
        assert.equal(stderr, '', block);
      }
    });

    it('has patches and files in JSON that are JSON', () => {
      for (const block of blocksOf(page, 'json')) assert.doesNotThrow(() => JSON.parse(block), block);
      for (const command of commands(page, 'kubectl')) {
        const at = command.indexOf('-p');
        if (at === -1) continue;
        const patch = command[at + 1] ?? assert.fail(command.join(' '));
        assert.doesNotThrow(() => JSON.parse(patch), command.join(' '));
        seen.patches += 1;
      }
    });

    it('has configurations of kube-proxy that the agent takes as they are', () => {
      for (const { text, value } of documentsOf(page)) {
        if (value.kind !== 'KubeProxyConfiguration') continue;
        const { flags, lenient, idle } = flagsFromText(text, {});
        assert.deepEqual([lenient, idle], [[], []]);
        assert.equal(configFromFlags(flags).mode, value.mode);
        seen.configurations += 1;
      }
    });

    it('has folders for kubectl -k that kustomize can build', async (context) => {
      const folders = blocksOf(page, 'sh')
        .join('')
        .matchAll(/kubectl (?:apply|delete) -k deploy\/([\w/]+)/g);
      for (const [, folder = ''] of folders) {
        seen.folders += 1;
        if ((await kustomize(folder)) === undefined) return context.skip(NO_KUBECTL.skip);
      }
    });

    it('asks kubectl for objects that the chart makes', options, async () => {
      const all = await rendered([`apiServer=${SERVER}`]);
      const set = all.find(({ kind }) => kind === 'DaemonSet') ?? assert.fail();
      for (const command of [...commands(page, 'kubectl'), ...commands(page, 'helm')]) {
        const text = command.join(' ');
        const [, name] = /\bdaemonset[ /](?!kube-proxy)([\w-]+)/.exec(text) ?? [];
        if (name !== undefined) assert.equal(name, set.metadata.name, text);
        if (name !== undefined || / -l k8s-app=/.test(text)) seen.objects += 1;
        const [, key = '', value] = /-l (k8s-app)=([\w-]+)/.exec(text) ?? [];
        if (value !== undefined) assert.equal(set.metadata.labels?.[key], value, text);
      }
    });

    it('gives Helm values that the chart takes', options, async () => {
      for (const command of commands(page, 'helm', 'upgrade')) {
        assert.ok(HELM !== undefined && command.includes('slicewire') && command.includes('deploy/chart'));
        const values = command.flatMap((word, index) => (command[index - 1] === '--set' ? [word] : []));
        const namespace = command[command.indexOf('--namespace') + 1];
        assert.deepEqual([namespace, values.length > 0], ['kube-system', true], command.join(' '));
        const all = await rendered(values.map((value) => value.replace('$SERVER', SERVER)));
        // One that nobody replaced by the name of an own registry.
        assert.match(JSON.stringify(all), /"image":"registry\.example\/slicewire:/);
        seen.values += 1;
      }
    });

    it('calls slicewire with commands and flags that it has', () => {
      const inline = [...page.text.matchAll(/`(slicewire [^`\n]+)`/g)].map(([, line = '']) => wordsOf(line));
      const environment = [...page.text.matchAll(/^SLICEWIRE_FLAGS="(.*)"$/gm)].map(([, flags = '']) => flags);
      const lines = [...inline, ...environment.map((flags) => ['slicewire', 'run', ...wordsOf(flags)])];
      for (const [, name, ...args] of lines) {
        const entry = COMMANDS.find((command) => command.name === name) ?? assert.fail(`slicewire ${name}`);
        const parsed = withFlags(new Command(), entry).exitOverride().parse(goArguments(args), { from: 'user' });
        const { config, ...flags } = parsed.opts();
        if (name === 'run' && config === undefined) configFromFlags(flags);
        seen.commands += 1;
      }
    });
  });
}

for (const page of WAYS) {
  describe(page.path, () => {
    it('has the way back, and says what was tried and what was not', () => {
      assert.match(page.text, /^## Back$/m);
      const [, tried = ''] = page.text.split('## What was tried\n');
      assert.match(tried, /^- Tried by the tests of this project: /m);
      assert.match(tried, /^- Not tried here: /m);
    });

    it('stops kube-proxy before slicewire starts beside it, and deletes it at the end', () => {
      const [, inPlace = ''] = page.text.split(/^## In place of a running kube-proxy$/m);
      const [block = ''] = blocksOf({ ...page, text: inPlace.split(/^## /m)[0] ?? '' }, 'sh');
      const stop = block.indexOf('patch daemonset kube-proxy');
      const start = Math.max(block.indexOf('kubectl apply -k'), block.indexOf('helm upgrade'));
      const gone = block.indexOf('delete daemonset kube-proxy');
      if (gone === -1) return;
      seen.replacements += 1;
      assert.ok(stop !== -1 && stop < gone, block);
      if (start !== -1) assert.ok(stop < start && start < gone, block);
      assert.ok(block.indexOf('rollout status daemonset slicewire') < gone, block);
    });
  });
}

describe('the pages together', () => {
  it('have some of each thing that is checked', () => {
    const without = Object.entries(seen).filter(([, found]) => found === 0);
    assert.deepEqual(
      // The tests with the chart are left out where there is no Helm.
      without.filter(([name]) => HELM !== undefined || !['objects', 'values'].includes(name)),
      [],
    );
  });
});

describe('deploy/overlays/kubeadm', () => {
  it('takes the ConfigMap that kubeadm makes: its keys and its mount path', options, async () => {
    const [set] = (await rendered(['existingConfigMap.name=kube-proxy'])).filter(({ kind }) => kind === 'DaemonSet');
    const { template } = parse(JSON.stringify(set?.spec));
    const [{ args }] = template.spec.containers;
    assert.ok(args.includes('--config=/var/lib/kube-proxy/config.conf'));
  });
});
