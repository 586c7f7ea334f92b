/** A server of the fleet's page that answers with made-up data by the parts of src/serve, and Chromium before it. */
import { type Browser, type BrowserContextOptions, chromium } from 'playwright-core';
import { pageFiles } from '../../../scripts/page.ts';
import type { Address } from '../../../src/base/address.ts';
import { realClock } from '../../../src/base/clock.ts';
import type { FleetLive } from '../../../src/inspect/wire/fleet.ts';
import { fleetDelta } from '../../../src/inspect/wire/fleet-delta.ts';
import { EventStreams, PAGE_STREAM } from '../../../src/serve/event-stream.ts';
import { HttpServer, NOT_FOUND, textAnswer } from '../../../src/serve/http.ts';
import { FLEET_PAGE, pageAnswer } from '../../../src/serve/page.ts';
import { refusalOf } from '../../../src/serve/query-handler.ts';
import { Tab } from './scene.ts';

/** Milliseconds: the machine may have more to do. */
const PATIENCE = 30_000;

export class FleetScene {
  readonly #browser: Browser;
  readonly #files: ReadonlyMap<string, Uint8Array>;
  #live: FleetLive;
  #stream: EventStreams<FleetLive> | undefined;
  #server: HttpServer | undefined;
  #port = 0;
  /** Events that could not be made. */
  readonly thrown: unknown[] = [];

  private constructor(browser: Browser, files: ReadonlyMap<string, Uint8Array>, live: FleetLive) {
    this.#browser = browser;
    this.#files = files;
    this.#live = live;
  }

  static async create(live: FleetLive): Promise<FleetScene> {
    const files = await pageFiles();
    const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
    const scene = new FleetScene(browser, files, live);
    await scene.start();
    return scene;
  }

  /** Serves, at the same port each time. */
  async start(): Promise<void> {
    const stream = new EventStreams<FleetLive>(
      PAGE_STREAM,
      {
        now: () => this.#live,
        whole: (live) => live,
        changed: fleetDelta,
        onThrown: (error) => void this.thrown.push(error),
      },
      realClock,
    );
    const listen = { address: '127.0.0.1' as Address, port: this.#port };
    this.#stream = stream;
    this.#server = await HttpServer.open(listen, (asked) => {
      if (asked.path === '/healthz') return textAnswer(200, 'ok');
      if (asked.path === '/live') return stream.open(asked);
      const read = (name: string) => Promise.resolve(this.#files.get(name) ?? new Uint8Array());
      return pageAnswer(FLEET_PAGE, read, (one) => refusalOf(one, true), asked) ?? NOT_FOUND;
    });
    this.#port = this.#server.port;
  }

  async stop(): Promise<void> {
    await this.#server?.close();
    this.#server = undefined;
  }

  async remove(): Promise<void> {
    await this.#browser.close();
    await this.stop();
  }

  /** What the fleet says from now on; `at` is set. */
  say(change: Partial<FleetLive>): void {
    this.#live = { ...this.#live, at: new Date().toISOString(), ...change };
    this.#stream?.touch();
  }

  get live(): FleetLive {
    return this.#live;
  }

  /** A tab at the page, such as `#/?name=node-1`. */
  async open(fragment = '#/', options: BrowserContextOptions = {}): Promise<Tab> {
    const context = await this.#browser.newContext({ viewport: { width: 1200, height: 750 }, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    const tab = new Tab(page, `http://127.0.0.1:${this.#port}`);
    await tab.view(fragment);
    return tab;
  }
}
