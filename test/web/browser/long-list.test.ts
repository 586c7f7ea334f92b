/** The list of very many Services: only what is seen is in the document, and everything is reached. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { until } from '../../helpers/base/until.ts';
import { service } from '../../helpers/cluster/objects.ts';
import { BrowserScene, type Tab } from './scene.ts';

const SERVICES = 44_000;
/** Rows of a window of 750 pixels, with those above and below it. */
const MAX_ROWS = 60;

/** `namespace-012/service-00123`: the agent sorts them by name, which is by number. */
function nameOf(n: number): { readonly namespace: string; readonly name: string } {
  const digits = String(n).padStart(5, '0');
  return { namespace: `namespace-${digits.slice(0, 3)}`, name: `service-${digits}` };
}

function objects(): object[] {
  return Array.from({ length: SERVICES }, (_, n) =>
    service({
      ...nameOf(n),
      spec: { clusterIP: `10.${97 + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`, ports: [{ port: 80 }] },
    }),
  );
}

describe(`the live page, with ${SERVICES} Services`, () => {
  let scene: BrowserScene;
  before(async () => {
    scene = await BrowserScene.create();
    await scene.node.write('services', ...objects());
    await scene.start();
  });
  after(() => scene.remove());

  /** Throws when more is in the document than what is seen. */
  async function mustBeFew(tab: Tab): Promise<void> {
    const rows = await tab.count('.row');
    assert.ok(rows > 5 && rows <= MAX_ROWS, `${rows} rows`);
  }

  const rowOf = (n: number) => `.row:has-text("${nameOf(n).name}")`;

  it('scrolls to the end, and asks for what is seen alone', async () => {
    const tab = await scene.open('#/services');
    await tab.sees('44,000 Services');
    await tab.page.locator(rowOf(0)).waitFor();
    await mustBeFew(tab);
    for (const share of [0.25, 0.5, 0.75, 1]) {
      await tab.page.evaluate(
        `document.getElementById('rows').scrollTop = ${share} * document.getElementById('rows').scrollHeight`,
      );
      await until('rows', async () => (await tab.count('.row.blank')) === 0 && (await tab.count('.row')) > 5);
      await mustBeFew(tab);
    }
    await tab.page.locator(rowOf(SERVICES - 1)).waitFor();
    const asked = tab.requests.filter((url) => url.includes('/services?'));
    assert.ok(asked.length < 40, `${asked.length} questions`);
    for (const url of asked) assert.match(url, /limit=100$/);
    await tab.close();
  });

  it('scrolls past everything without asking for everything', async () => {
    const tab = await scene.open('#/services');
    await tab.page.locator(rowOf(0)).waitFor();
    await tab.page.locator('#rows').hover();
    for (let i = 0; i < 60; i++) await tab.page.mouse.wheel(0, 20_000);
    await until('rows', async () => (await tab.count('.row.blank')) === 0 && (await tab.count('.row')) > 5);
    await mustBeFew(tab);
    const asked = tab.requests.filter((url) => url.includes('/services?')).length;
    assert.ok(asked < SERVICES / 100 / 4, `${asked} questions`);
    await tab.close();
  });

  it('is searched, and moved through by keys', async () => {
    const tab = await scene.open('#/services');
    await tab.page.locator(rowOf(0)).waitFor();
    await tab.page.focus('#rows');
    await tab.page.keyboard.press('End');
    await tab.page.locator(`${rowOf(SERVICES - 1)}[aria-selected=true]`).waitFor();
    await tab.page.keyboard.press('PageUp');
    await tab.page.keyboard.press('Home');
    await tab.page.keyboard.press('ArrowDown');
    await tab.page.locator(`${rowOf(1)}[aria-selected=true]`).waitFor();
    await tab.page.keyboard.press('/');
    await tab.page.keyboard.type('service-4321');
    await tab.sees('10 Services', '.count');
    await tab.page.locator(rowOf(43_217)).waitFor();
    await tab.close();
  });
});
