/** The shadow's page in Chromium, before a server that answers with made-up findings by the parts of src/serve. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type Browser, chromium } from 'playwright-core';
import { pageFiles } from '../../../scripts/page.ts';
import type { Address } from '../../../src/base/address.ts';
import type { VerifiedDifference } from '../../../src/inspect/wire/verification.ts';
import type { ServiceKey } from '../../../src/proxy/model/objects.ts';
import { HttpServer, jsonAnswer, NOT_FOUND, textAnswer } from '../../../src/serve/http.ts';
import { pageAnswer, SHADOW_PAGE } from '../../../src/serve/page.ts';
import { refusalOf } from '../../../src/serve/query-handler.ts';
import { shadowOf } from '../../../src/shadow/answer.ts';
import { Findings } from '../../../src/shadow/findings.ts';
import { Tab } from './scene.ts';

const STALE: VerifiedDifference = {
  ...{ family: 'IPv4', object: 'from the node to 10.96.0.20:80/tcp', service: 'shop/web', kind: 'changed' },
  ...{ wanted: ['sent to 10.244.1.11:8080'], found: ['sent to 10.244.1.12:8080'], because: '', repaired: false },
  causes: ['10.244.1.12:8080 is in no EndpointSlice of Service shop/web: <b>it is stale</b>.'],
};

/** After a minute, with a change that kube-proxy wrote within 1.5 s. */
function found(differences: readonly VerifiedDifference[]): Findings {
  const findings = new Findings({ theirs: () => undefined, plan: () => undefined });
  findings.problem = undefined;
  if (differences.length > 0) findings.differences.found('shop/web' as ServiceKey, differences, 40_000);
  findings.planReady(50_002, 2);
  findings.programming.changed('shop/web' as ServiceKey, 50_000, true);
  findings.programming.committed(51_500, () => true);
  findings.programming.written('shop/web' as ServiceKey);
  findings.switchPlanned({ steps: [] }, 1000, 7);
  findings.round = { at: 60_000, connections: 81, milliseconds: 99, onPurpose: [], onPurposeCount: 0 };
  return findings;
}

describe('the page of a shadow', () => {
  let browser: Browser;
  let server: HttpServer;
  let findings: Findings;
  const answer = () =>
    shadowOf({
      by: {
        ...{ who: 'agent', mode: 'iptables', rules: 'kube-proxy', node: 'node-1', version: '0.1.0' },
        at: new Date(Date.UTC(2026, 10, 29, 12, 1, 40)).toISOString(),
      },
      ...{ pid: 7, startedAt: '2026-11-29T12:00:00.000Z', source: 'the API server https://cp:6443', heard: [] },
      ...{ objects: { services: 2, slices: 3 }, cost: { processor: 1.25, memory: 2 ** 27 } },
      ...{ findings, sight: 'chains named', now: 100_000, wallAtZero: Date.UTC(2026, 10, 29, 12) },
    });
  let isDown = false;

  before(async () => {
    const files = await pageFiles();
    browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
    server = await HttpServer.open({ address: '127.0.0.1' as Address, port: 0 }, (asked) => {
      if (asked.path === '/status') return isDown ? textAnswer(503, 'down') : jsonAnswer(200, JSON.stringify(answer()));
      const read = (name: string) => Promise.resolve(files.get(name) ?? new Uint8Array());
      return pageAnswer(SHADOW_PAGE, read, (one) => refusalOf(one, true), asked) ?? NOT_FOUND;
    });
  });
  after(async () => {
    await browser.close();
    await server.close();
  });

  async function open(): Promise<Tab> {
    const page = await (await browser.newContext({ viewport: { width: 1000, height: 750 } })).newPage();
    const tab = new Tab(page, `http://127.0.0.1:${server.port}`);
    await tab.view('');
    return tab;
  }

  it('says what this node would gain: both latencies, what goes elsewhere and why, and what a switch would change', async () => {
    findings = found([STALE]);
    const tab = await open();
    await tab.sees('What this node would gain', 'h2');
    await tab.page.locator('.health.bad').waitFor();
    await tab.sees('1.5 s', 'table');
    await tab.sees('2.0 ms', 'table');
    await tab.sees('shop/web', '.card:has-text("Connections that go elsewhere")');
    await tab.sees('<b>it is stale</b>', '.card:has-text("Connections that go elsewhere")');
    await tab.sees('7 open connections', '.card:has-text("A switch to slicewire")');
    await tab.sees('A shadow writes nothing to the kernel.');
    await tab.mustFit();
    assert.deepEqual(tab.wrong, []);
    assert.deepEqual(
      tab.requests.filter((url) => !url.startsWith(`http://127.0.0.1:${server.port}/`)),
      [],
    );
  });

  it('says that nothing goes elsewhere, and later that the shadow does not answer', async () => {
    findings = found([]);
    const tab = await open();
    await tab.page.locator('.health.ok').waitFor();
    await tab.sees('None was found.');
    isDown = true;
    await tab.sees('The shadow does not answer');
    isDown = false;
  });
});
