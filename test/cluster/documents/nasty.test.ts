/** Texts that cost more than they look: none of a megabyte takes more than 300 MB, or holds the loop for a second. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { loadConfig } from '../../../src/agent/load-config.ts';
import { KubeconfigUnusable, loadCredentials } from '../../../src/cluster/api/credentials.ts';
import type { Value } from '../../../src/cluster/documents/documents.ts';
import { DocumentFiles } from '../../../src/cluster/documents/files.ts';
import { ManifestStore } from '../../../src/cluster/source/manifests/manifest-store.ts';
import { ConfigError } from '../../../src/config/flags.ts';
import { aliasBomb } from '../../helpers/cluster/documents/bomb.ts';

const MB = 1 << 20;
const numbered = (count: number, line: (i: number) => string) => Array.from({ length: count }, (_, i) => line(i));
const SERVICE = 'apiVersion: v1\nkind: Service\nmetadata: {name: web}\n';
const JSON_SERVICE = '{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},';

/** What each is; `says`: how it is refused, undefined where it is just read. */
const TEXTS: Readonly<Record<string, { readonly text: string; readonly says?: RegExp }>> = {
  'an alias bomb': {
    text: aliasBomb(`${SERVICE}spec: {ports: *a8}\n`),
    says: /aliases and merge keys .* more than 1000000/,
  },
  'lists in lists': { text: '['.repeat(MB), says: /more than 100 levels deep/ },
  'mappings in mappings': { text: '{a: '.repeat(MB / 4), says: /more than 100 levels deep/ },
  'lists in lists, in lines': { text: '- '.repeat(MB / 2), says: /more than 100 levels deep/ },
  'JSON in JSON': { text: `${'['.repeat(MB / 2)}${']'.repeat(MB / 2)}`, says: /more than 100 levels deep/ },
  'a long list': { text: `a: [${'a,'.repeat(MB / 2)}a]`, says: /more than 400000 tokens/ },
  'a list of nothing': { text: `a: [${','.repeat(MB)}]`, says: /more than 400000 tokens/ },
  'a list that does not end': { text: `a: [${'{},'.repeat(MB / 3)}`, says: /more than 400000 tokens/ },
  'many anchors': { text: numbered(80_000, (i) => `a${i}: &a${i} x`).join('\n'), says: /more than 400000/ },
  'many aliases': { text: `a: &a x\nb: [${'*a,'.repeat(MB / 3)}]`, says: /more than 400000/ },
  'aliases of a long text': {
    text: `${SERVICE}a: &a ${'x'.repeat(MB / 2)}\nb: [${'*a,'.repeat(1000)}]`,
    says: /aliases and merge keys .* more than 1000000/,
  },
  'merge keys': {
    text: `a: &a {${numbered(20_000, (i) => `k${i}: 1`).join(', ')}}\nb:\n${'- <<: *a\n'.repeat(20_000)}`,
    says: /aliases and merge keys .* more than 1000000/,
  },
  'many documents': { text: '---\na\n'.repeat(MB / 6), says: /must be a Kubernetes object|more than 100000 documents/ },
  'many ends of documents': { text: '...\n'.repeat(MB / 4), says: /more than 400000|another document/ },
  'many keys': { text: numbered(50_000, (i) => `key-${i}: "${i}"`).join('\n'), says: /kind/ },
  'one key many times': { text: `${SERVICE}${'a: 1\n'.repeat(50_000)}`, says: /appears twice/ },
  'a huge key': { text: `? ${'k'.repeat(MB)}\n: 1\n`, says: /kind/ },
  'tags of nobody': { text: `a: ${'!a '.repeat(MB / 3)}`, says: /more than 400000/ },
  'many small objects in a list': { text: `{"kind":"List","items":[${'{},'.repeat(MB / 3)}{}]}`, says: /kind/ },
  'many broken ports': {
    text: `${JSON_SERVICE}"spec":{"ports":[${'{},'.repeat(MB / 3)}{}]}}`,
    says: /more than 100000 values/,
  },
  'many ports that are no ports': {
    text: `${JSON_SERVICE}"spec":{"ports":[${'1,'.repeat(MB / 2)}1]}}`,
    says: /more than 100000 values/,
  },
  spaces: { text: `a: ${' '.repeat(MB)}b`, says: /kind/ },
  'a text that does not end': { text: `a: "${'x'.repeat(MB)}`, says: /not valid YAML/ },
};

describe('a text', () => {
  let folder: string;
  const documents = new DocumentFiles();
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'documents-'));
  });
  after(() => rm(folder, { recursive: true }));

  for (const [what, { text, says }] of Object.entries(TEXTS)) {
    it(`of ${what} costs little and is reported`, async () => {
      const path = join(folder, 'x.yaml');
      await writeFile(path, text);
      await documents.list(folder);
      const began = process.memoryUsage().rss;
      let peak = began;
      const look = setInterval(() => (peak = Math.max(peak, process.memoryUsage().rss)), 10);
      let longest = 0;
      const draft = new ManifestStore('node-a', () => undefined).draft(path);
      const onValues = (values: readonly Value[]) => {
        const { user } = process.threadCpuUsage();
        draft.add(values);
        longest = Math.max(longest, (process.threadCpuUsage().user - user) / 1000);
      };
      const read = await documents.read({ path, maxBytes: 64 * MB, onValues });
      clearInterval(look);
      assert.ok(peak - began < 300 * MB, `${Math.round((peak - began) / MB)} MB`);
      assert.ok(longest < 1000, `the loop was held for ${longest} ms`);
      assert.equal(read.kind, 'read');
      const faults = [
        ...(read.kind === 'read' ? read.problems.map(({ reason }) => reason) : []),
        ...draft.faults.map(({ field, problem }) => `${field} ${problem}`),
      ];
      for (const { event } of draft.objects.values())
        if ('faults' in event) faults.push(...event.faults.map(({ field, problem }) => `${field} ${problem}`));
      assert.ok(faults.length < 200, `${faults.length} faults`);
      assert.match(faults.join('\n'), says ?? /^$/);
    });
  }

  it('that is an alias bomb is refused as a configuration and as a kubeconfig, with its line', async () => {
    const file = join(folder, 'bomb.conf');
    await writeFile(file, aliasBomb());
    const isReported = (kind: typeof ConfigError | typeof KubeconfigUnusable, flag: string) => (error: unknown) => {
      assert.ok(error instanceof kind, String(error));
      assert.match(
        error.message,
        new RegExp(`^${flag}.*: line 6, column 22: aliases and merge keys up to here expand to`),
      );
      return true;
    };
    await assert.rejects(loadConfig({ config: file }), isReported(ConfigError, '--config'));
    await assert.rejects(
      loadCredentials({ kubeconfig: file, master: undefined }),
      isReported(KubeconfigUnusable, `--kubeconfig ${file}`),
    );
  });
});
