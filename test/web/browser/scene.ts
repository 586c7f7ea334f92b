/** A node in a network namespace with an agent that follows a folder of manifests, and Chromium in the same namespace. */
import assert from 'node:assert/strict';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { writePage } from '../../../scripts/page.ts';
import type { AgentProcess } from '../../../src/cli/lab/agent-process.ts';
import { LAB, Lab } from '../../../src/cli/lab/lab.ts';
import { until } from '../../helpers/base/until.ts';
import { ManifestNode } from '../../helpers/cli/lab/manifest-node.ts';
import { shellCommands } from '../../helpers/kernel/shell-commands.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';

const ORIGIN = 'http://127.0.0.1:10249';
/** Milliseconds: the machine may have more to do. */
const PATIENCE = 30_000;

export class BrowserScene {
  readonly node: ManifestNode;
  readonly #lab: Lab;
  readonly #folder: string;
  readonly #browser: Browser;

  private constructor(lab: Lab, node: ManifestNode, folder: string, browser: Browser) {
    this.#lab = lab;
    this.node = node;
    this.#folder = folder;
    this.#browser = browser;
  }

  static async create(): Promise<BrowserScene> {
    await writePage();
    const lab = await Lab.create({ commands: shellCommands, pods: 1, remotePods: 0, signal: NEVER });
    const folder = await mkdtemp(join(tmpdir(), 'slicewire-browser-'));
    // Chromium is started by playwright, which knows nothing of namespaces.
    const { file, args } = lab.inside('node', 'chromium', []);
    const starter = join(folder, 'chromium');
    await writeFile(starter, `#!/bin/sh\nexec ${[file, ...args].join(' ')} "$@"\n`);
    await chmod(starter, 0o755);
    const browser = await chromium.launch({ executablePath: starter, args: ['--no-sandbox'] });
    return new BrowserScene(lab, await ManifestNode.create(lab), folder, browser);
  }

  async remove(): Promise<void> {
    await this.#browser.close();
    await this.node.clear();
    await this.#lab.remove();
    await rm(this.#folder, { recursive: true });
  }

  /** An agent that has done its first sync. */
  async start(...flags: string[]): Promise<AgentProcess> {
    const ranges = `${LAB.clusterCidr.v4},${LAB.clusterCidr.v6}`;
    const agent = this.node.start('--mode=nftables', '--cluster-cidr', ranges, ...flags);
    // `synced, nothing to do` where the kernel has the rules of the agent before.
    await agent.logged(({ msg }) => msg.startsWith('synced'));
    return agent;
  }

  /** Run a command on the node. */
  async exec(file: string, ...args: string[]): Promise<string> {
    return await this.#lab.exec('node', file, ...args);
  }

  /** A tab at a view, such as `#/services`. */
  async open(view = '#/', options: BrowserContextOptions = {}): Promise<Tab> {
    const context = await this.#browser.newContext({ viewport: { width: 1200, height: 750 }, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    const tab = new Tab(page);
    await page.goto(`${ORIGIN}/${view}`);
    return tab;
  }
}

/** A page of the browser, with all that went wrong in it. */
export class Tab {
  readonly page: Page;
  /** Errors of the page, refused requests and violations of its policy. */
  readonly wrong: string[] = [];
  /** What it asked for, as URLs. */
  readonly requests: string[] = [];

  readonly #origin: string;

  constructor(page: Page, origin = ORIGIN) {
    this.page = page;
    this.#origin = origin;
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') this.wrong.push(message.text());
    });
    page.on('pageerror', (error) => this.wrong.push(error.message));
    page.on('request', (request) => this.requests.push(request.url()));
  }

  /** Go to another view. */
  async view(fragment: string): Promise<void> {
    await this.page.goto(`${this.#origin}/${fragment}`);
  }

  /** Wait until an element with this text is seen. */
  async sees(text: string | RegExp, within = 'body'): Promise<void> {
    await this.page.locator(within).getByText(text).first().waitFor();
  }

  /** The text of an element, as it is seen. */
  async text(selector: string): Promise<string> {
    // biome-ignore lint/performance/useDomNodeTextContent: what is not seen does not count
    return (await this.page.locator(selector).first().innerText()).replace(/\s+/g, ' ').trim();
  }

  /** Wait until this holds in the page. Its policy forbids playwright's own way, which compiles text there. */
  async holds(what: string): Promise<void> {
    await until(what, async () => (await this.page.evaluate(what)) === true, PATIENCE);
  }

  /** Elements in the document. */
  async count(selector: string): Promise<number> {
    return await this.page.locator(selector).count();
  }

  /** Throws when the page is wider than its window. */
  async mustFit(): Promise<void> {
    const [has, room] = (await this.page.evaluate('[document.documentElement.scrollWidth, innerWidth]')) as [
      number,
      number,
    ];
    assert.ok(has <= room, `${this.page.url()} is ${has} pixels wide in a window of ${room}`);
  }

  /** Close it. Throws when something was wrong, or when it asked another host. */
  async close(): Promise<void> {
    await this.page.context().close();
    assert.deepEqual(this.wrong, []);
    assert.deepEqual(
      this.requests.filter((url) => !url.startsWith(`${this.#origin}/`)),
      [],
    );
  }
}
