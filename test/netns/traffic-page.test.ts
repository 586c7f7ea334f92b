/** The examples of docs/traffic.md, as they are on the page, with real connections. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { Lab } from '../../src/cli/lab/lab.ts';
import { until } from '../helpers/base/until.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const PAGE = new URL('../../docs/traffic.md', import.meta.url);
const MANY = 300;

/** The YAML of each example, by its name. */
async function examples(): Promise<ReadonlyMap<string, string>> {
  const page = await readFile(PAGE, 'utf8');
  const found = page.matchAll(/<!-- example: (.*?) -->\n\n```yaml\n(.*?)```/gs);
  return new Map([...found].map(([, name = '', yaml = '']) => [name, yaml]));
}

describe('docs/traffic.md', () => {
  let lab: Lab;
  let node: ManifestNode;
  let yaml: ReadonlyMap<string, string>;
  const told = new Set<string>();

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    for (const pod of ['pod-1', 'pod-2']) await lab.serve(pod, 'TCP', 8080);
    node = await ManifestNode.create(lab);
    yaml = await examples();
  });
  after(async () => {
    await node.clear();
    await lab.remove();
  });
  afterEach(() => node.stop());

  const save = (text: string) => writeFile(join(node.folder, 'shop.yaml'), text);

  async function served(name: string, change = (text: string) => text): Promise<string> {
    const text = yaml.get(name) ?? assert.fail(`the page has no example "${name}"`);
    told.add(name);
    await save(change(text));
    await node.start('--mode=nftables', '--nftables-min-sync-period=0s').synced();
    return text;
  }

  async function ask(): Promise<string> {
    const answer = await lab.ask('pod-3', { address: '10.96.0.10', port: 80, timeout: 4000 });
    return answer.outcome === 'reply' ? answer.by : answer.outcome;
  }
  async function shares(): Promise<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (let n = 0; n < MANY; n++) {
      const by = await ask();
      counts[by] = (counts[by] ?? 0) + 1;
    }
    return counts;
  }
  const answering = async () =>
    Object.keys(await shares())
      .sort()
      .join();

  it('has a canary that gets a tenth of the connections', async (t) => {
    await served('a canary that gets a tenth of the connections');
    const counts = await shares();
    t.diagnostic(JSON.stringify(counts));
    assert.deepEqual(Object.keys(counts).sort(), ['pod-1', 'pod-2']);
    // Nine standard deviations and more: 5 beside 30, and never so many.
    assert.ok((counts['pod-2'] ?? 0) > 5 && (counts['pod-2'] ?? 0) < 80);
    const { out } = await node.asks('explain', '10.244.1.13', '10.96.0.10:80');
    assert.match(out, /10\.244\.1\.12:8080.*its weight is 11/);
  });

  it('has a backup', async () => {
    const text = await served('a second site as a backup');
    assert.equal(await answering(), 'pod-1');
    assert.match(
      (await node.asks('explain', '10.244.1.13', '10.96.0.10:80')).out,
      /a backup \(slicewire\.dev\/backup\)/,
    );
    await save(text.replace('[10.244.1.11]', '[10.244.1.11]\n    conditions: {ready: false}'));
    await until('the backup serves', async () => (await ask()) === 'pod-2');
  });

  it('has new endpoints that warm up', async () => {
    const second = '  - addresses: [10.244.1.12]\n';
    const name = 'new endpoints that warm up for a minute';
    const text = await served(name, (all) => all.replace(second, ''));
    assert.equal(await answering(), 'pod-1');
    await save(text);
    await until('the new endpoint is used', async () => (await ask()) === 'pod-2');
    assert.match(
      (await node.asks('explain', '10.244.1.13', '10.96.0.10:80')).out,
      /its weight is \d+, and grows to 100/,
    );
    // A restart in the middle goes on.
    await node.stop();
    await node.start('--mode=nftables').synced();
    assert.match(
      (await node.asks('explain', '10.244.1.13', '10.96.0.10:80')).out,
      /its weight is \d+, and grows to 100/,
    );
  });

  it('has a client that stays with its endpoint', async () => {
    await served('a client that stays with its endpoint');
    assert.match(await answering(), /^pod-[12]$/);
  });

  it('has a Service that admits three connections', async () => {
    await served('a Service that admits three connections');
    const open = async (n: number) => {
      const answer = await lab.ask('pod-3', { address: '10.96.0.10', port: 80, timeout: 4000, keep: `limited ${n}` });
      return answer.outcome === 'reply' ? answer.by : answer.outcome;
    };
    const answers: string[] = [];
    for (let n = 0; n < 5; n++) answers.push(await open(n));
    assert.deepEqual(answers, ['pod-1', 'pod-1', 'pod-1', 'refused', 'refused']);
    const { out } = await node.asks('explain', '10.244.1.13', '10.96.0.10:80');
    assert.match(
      out,
      /max-connections"\]: 3\s+A further connection is refused while so many are open[^;]+; it has\s+refused 2\s+so far/,
    );
  });

  it('has no other example', () => {
    assert.deepEqual(new Set(yaml.keys()), told);
  });
});
