/** The live page's questions to a real agent: what readers see while objects, configuration and signals come. */

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { exposureSchema } from '../../src/inspect/wire/exposure.ts';
import { type Live, liveSchema } from '../../src/inspect/wire/live.ts';
import { withDelta } from '../../src/inspect/wire/live-delta.ts';
import { serviceSchema, servicesSchema } from '../../src/inspect/wire/services.ts';
import { type Child, startChild } from '../../src/kernel/commands.ts';
import { SLICEWIRE, startAgent } from '../helpers/cli/slicewire.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { askNode } from './node-server.ts';

const PORT = 10_249;
/** Prints each line of data, and `end`. */
const READER = `const answer = await fetch('http://127.0.0.1:${PORT}/live');
let text = '';
try {
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    const events = text.split('\\n\\n');
    text = events.pop();
    for (const event of events) console.log(event.split('\\n').find((line) => line.startsWith('data: '))?.slice(6) ?? '');
  }
} catch {}
console.log('end');`;

/** What a page shows: the first event, with each later one taken in. */
class Page {
  shown: Live | undefined;
  isOver = false;
  readonly #child: Child;
  #wake: () => void = () => undefined;

  constructor(lab: Lab) {
    const { file, args = [] } = lab.inside('node', process.execPath, ['--input-type=module', '-e', READER]);
    this.#child = startChild({ file, args, onLine: (line) => this.#take(line) });
  }

  async until(isSo: (page: Page) => boolean): Promise<Live> {
    while (!isSo(this)) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return liveSchema.parse(this.shown);
  }

  async close(): Promise<void> {
    await this.#child.stop();
  }

  #take(line: string): void {
    if (line === 'end') this.isOver = true;
    else if (line !== '') {
      const event: Live = JSON.parse(line);
      this.shown = this.shown === undefined ? event : withDelta(this.shown, event);
    }
    this.#wake();
  }
}

describe('the live page of a real agent', () => {
  let lab: Lab;
  let folder: string;
  let agent: AgentProcess;
  let page: Page;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 1, remotePods: 0, signal: NEVER });
  });
  after(() => lab.remove());

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-test-'));
    await put(1);
    await configure({});
    agent = startAgent(lab, ['run', ...flags()]);
    await agent.synced();
    page = new Page(lab);
  });
  afterEach(async () => {
    await page.close();
    await agent.stop();
    await inNode(...SLICEWIRE, 'cleanup');
    await rm(folder, { recursive: true });
  });

  const inNode = (command: string, ...args: string[]) => shellCommands.run(lab.inside('node', command, args), NEVER);
  const flags = () =>
    ['--config', join(folder, 'config'), '--manifests', join(folder, 'objects.json')].concat(
      '--hostname-override',
      'node',
    );

  async function configure({ bit = 14, metrics = `127.0.0.1:${PORT}` }): Promise<void> {
    const text = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
nftables: {masqueradeBit: ${bit}}
conntrack: {maxPerCore: 0}
metricsBindAddress: "${metrics}"
`;
    await writeFile(join(folder, 'config'), text);
  }

  /** So many Services, each with a node port and an endpoint. */
  async function put(count: number): Promise<void> {
    const items = Array.from({ length: count }, (_, i) => [
      service({
        name: `web${i}`,
        namespace: 'shop',
        spec: { type: 'NodePort', clusterIP: `10.96.0.${10 + i}`, ports: [{ port: 80, nodePort: 30_080 + i }] },
      }),
      slice({
        name: `web${i}-1`,
        namespace: 'shop',
        service: `web${i}`,
        addressType: 'IPv4',
        endpoints: [{ addresses: [podAddress(1).v4], nodeName: 'node' }],
      }),
    ]).flat();
    await writeFile(join(folder, 'objects.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
  }

  it('shows each change, goes on when other parts take over, and ends when its port moves', async () => {
    const first = await page.until(({ shown }) => shown?.health.ready === true);
    assert.match(first.sentence, /^The only Service is in the kernel/);
    assert.equal(first.syncs.at(-1)?.trigger, 'start');
    await put(3);
    const more = await page.until(({ shown }) => shown?.objects.services === 3 && shown.syncs.length > 1);
    assert.equal(more.syncs.at(-1)?.trigger, 'changes');
    assert.ok(more.revision > first.revision);
    assert.equal(more.sentence, 'All 3 Services are in the kernel');
    assert.match(more.lastChange?.object ?? '', /^Service shop\/web/);
    assert.equal(more.latency.reduce((sum, { changes }) => sum + changes, 0) > 0, true);
    // Another generation of parts.
    const { length } = agent.log;
    await configure({ bit: 15 });
    await agent.synced(length);
    process.kill(agent.pid ?? assert.fail(), 'SIGHUP');
    await put(2);
    await page.until(({ shown }) => shown?.objects.services === 2);
    assert.equal(page.isOver, false);
    await configure({ bit: 15, metrics: '127.0.0.1:10349' });
    await page.until(({ isOver }) => isOver);
  });

  it('has Services, one of them, and what is exposed, also for the command', async () => {
    const ask = async (path: string) => JSON.parse((await askNode(lab, path, PORT)).body);
    const { rows, total } = servicesSchema.parse(await ask('/services?search=web&limit=1'));
    assert.deepEqual([total, rows[0]?.service, rows[0]?.state, rows[0]?.endpoints], [1, 'shop/web0', 'served', 1]);
    const one = serviceSchema.parse(await ask('/service?name=shop/web0'));
    const lines = one.rules.flatMap((place) => place.lines);
    assert.ok(lines.includes('10.96.0.10 . tcp . 80 : goto cluster-ip-of-1'), lines.join('\n'));
    const exposed = exposureSchema.parse(await ask('/exposure'));
    assert.deepEqual(
      exposed.exposed.map(({ kind, port, answers }) => [kind, port, answers]),
      [['node port', 30_080, 'endpoints']],
    );
    assert.ok(exposed.nodePortAddresses.includes('192.168.77.2'), exposed.nodePortAddresses.join());
    for (const without of [[], ['--proxy-mode', 'nftables', ...flags().slice(2)]]) {
      const told = await inNode(...SLICEWIRE, 'exposure', ...without);
      assert.equal(told.exitCode, 0, told.stderr);
      assert.match(told.stdout, /^From outside, node answers at 1 node port\nNode ports answer at .*192\.168\.77\.2/);
    }
  });
});
