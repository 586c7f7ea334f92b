/** The fleet's page in Chromium, before a server with made-up fleets of 3, 200 and 5,000 nodes. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { FleetLive } from '../../../src/inspect/wire/fleet.ts';
import { noneBehindText, troubleText } from '../../../src/web/fleet/fleet-text.ts';
import { until } from '../../helpers/base/until.ts';
import { FleetScene } from './fleet-scene.ts';
import { fleetNode, fleetOf } from './fleets.ts';
import { HOSTILE } from './objects.ts';
import type { Tab } from './scene.ts';

/** Wait until an element has this in its text. */
async function has(tab: Tab, selector: string, text: string): Promise<void> {
  await until(`${selector} has "${text}"`, async () => (await tab.text(selector)).includes(text));
}

/** The colours on the map, as numbers, the most frequent first; how many there are says whether it is drawn. */
const COLOURS = `(() => {
  const drawn = document.querySelector('#map canvas');
  const copy = new OffscreenCanvas(drawn.width, drawn.height).getContext('2d', { willReadFrequently: true });
  copy.drawImage(drawn, 0, 0);
  const { data } = copy.getImageData(0, 0, drawn.width, drawn.height);
  const counts = new Map();
  for (const pixel of new Uint32Array(data.buffer)) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  counts.delete(0);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([pixel]) => pixel);
})()`;

async function coloursOf(tab: Tab): Promise<number[]> {
  return (await tab.page.evaluate(COLOURS)) as number[];
}

describe('the page of a fleet of 3 nodes', () => {
  let scene: FleetScene;
  before(async () => {
    scene = await FleetScene.create(fleetOf(3, Date.now()));
  });
  after(() => scene.remove());

  it('says how the fleet is, and is well', async () => {
    const tab = await scene.open();
    await tab.sees('All 3 nodes are up to date.', '.health.ok');
    await tab.sees(noneBehindText(scene.live.nodes));
    await tab.sees('No node reports a fault');
    await has(tab, '[data-testid=waiting]', '2');
    await tab.sees('5,120 in time, 3 late', '.facts');
    await tab.sees('shop/web', 'table');
    await tab.sees(/1,284,300 times a change .* 99 % within 118 ms/);
    await tab.mustFit();
    await tab.close();
  });

  it('follows what changes: a node falls behind, one comes, one goes', async () => {
    const tab = await scene.open();
    await has(tab, '.count', '3 nodes');
    const [one, two, three] = scene.live.nodes;
    assert.ok(one !== undefined && two !== undefined && three !== undefined);
    scene.say({ nodes: [one, { ...two, state: 'behind', lag: 30_000, why: 'It waits for the kernel' }, three] });
    await tab.sees('It waits for the kernel', 'table');
    await tab.page.locator('.health.warn').waitFor();
    const since = '.card:has-text("Nodes that are not current") td.number';
    const shown = await tab.text(since);
    assert.match(shown, /^3\d\.\d s$/, 'the time that it is behind');
    await until('the time goes on', async () => (await tab.text(since)) !== shown);
    scene.say({ nodes: [one, two, fleetNode('node-0009')], waiting: 0 });
    await tab.sees(noneBehindText(scene.live.nodes));
    await has(tab, '[data-testid=waiting]', '0');
    await tab.view('#/?node=node-0002');
    await tab.sees('The fleet knows no such node');
    await tab.view('#/?node=node-0009');
    await has(tab, '.chosen', 'node-0009 State current');
    scene.say({ nodes: [] });
    await tab.sees('No node is known yet.', '.card:has-text("Nodes that are not current")');
    scene.say({ nodes: [one, two, three] });
    await tab.close();
  });

  it('says that the connection is lost and since when, and goes on when there is a fleet again', async () => {
    const tab = await scene.open();
    await tab.sees('live', '.pulse');
    await scene.stop();
    await tab.sees(/The connection to the fleet is lost: it was last heard at \d\d:\d\d:\d\d, \d+ s ago/, '.gone');
    assert.match(await tab.text('[data-testid=announced]'), /connection to the fleet is lost/);
    assert.match(await tab.text('[data-testid=sentence]'), /All 3 nodes are up to date/, 'the last that was said');
    scene.say({ sentence: 'A new replica answers.', version: '1.5.0' });
    await scene.start();
    await tab.sees('A new replica answers.');
    await tab.sees('The fleet is slicewire 1.5.0 now, and this page is older.');
    assert.equal(await tab.count('[data-testid=gone]'), 0);
    assert.ok(tab.wrong.splice(0).every((text) => /Failed to load resource|ERR_/.test(text)));
    await tab.close();
  });
});

describe('the page of a fleet of 200 nodes', () => {
  let scene: FleetScene;
  before(async () => {
    scene = await FleetScene.create(fleetOf(200, Date.now()));
  });
  after(() => scene.remove());

  it('shows states, faults, modes and versions', async () => {
    const tab = await scene.open();
    await tab.page.locator('.health.warn').waitFor();
    await has(tab, '.states', 'current 192');
    await has(tab, '.states', 'behind 4');
    await tab.sees('nft: Device or resource busy');
    await tab.sees('connect ECONNREFUSED 10.0.0.71:10256');
    await tab.sees('The kernel refuses every write');
    await tab.sees(troubleText(scene.live.nodes));
    await tab.sees('2 modes and 3 versions', '.card:has-text("Modes and versions")');
    await tab.sees('0.9.2', '.card:has-text("Modes and versions")');
    await tab.close();
  });

  it('tells about a cell to the pointer and to the keyboard', async () => {
    const tab = await scene.open('#/?state=no+answer');
    await has(tab, '.count', '1 of 200 nodes');
    await tab.page.hover('#map canvas', { position: { x: 10, y: 12 } });
    await has(tab, '.tip', 'node-0071 no answer for');
    await has(tab, '.tip', 'connect ECONNREFUSED');
    await tab.view('#/');
    await has(tab, '.count', '200 nodes');
    await tab.page.mouse.move(0, 0);
    await tab.page.focus('#map');
    await has(tab, '.tip', 'node-0000 current');
    await tab.page.keyboard.press('End');
    await tab.page.keyboard.press('ArrowLeft');
    await has(tab, '.tip', 'node-0198 current');
    const option = tab.page.locator('[role=option][aria-selected=true]');
    assert.equal(await option.getAttribute('aria-posinset'), '199');
    assert.equal(await tab.page.getAttribute('#map', 'aria-activedescendant'), await option.getAttribute('id'));
    assert.match(await tab.text('[role=option]'), /^node-0198: current/);
    await tab.page.keyboard.press('Enter');
    await has(tab, '.chosen', 'node-0198');
    assert.match(tab.page.url(), /node=node-0198/);
    await tab.page.click('.chosen button');
    assert.equal(await tab.count('.chosen'), 0);
    await tab.close();
  });

  it('is filtered by state and name, and the address has the filter', async () => {
    const tab = await scene.open();
    await tab.page.click('.states button:has-text("behind")');
    await has(tab, '.count', '4 of 200 nodes');
    assert.equal(await tab.page.getAttribute('.states button:has-text("behind")', 'aria-pressed'), 'true');
    await tab.page.click('.states button:has-text("no agent")');
    await has(tab, '.count', '5 of 200 nodes');
    await tab.page.keyboard.press('/');
    await tab.page.keyboard.type('NODE-005');
    await has(tab, '.count', '1 of 200 nodes');
    assert.match(tab.page.url(), /#\/\?state=behind&state=no\+agent&name=NODE-005$/);
    await tab.page.keyboard.press('ArrowDown');
    await has(tab, '.tip', 'node-0058 behind for');
    await tab.page.keyboard.press('/');
    await tab.page.keyboard.type('x');
    await tab.sees('No node fits this filter.');
    await tab.close();
  });

  it('shows hostile text as text', async () => {
    const hostile = fleetNode(HOSTILE, {
      ...{ state: 'no answer', lag: 1000, why: HOSTILE, mode: HOSTILE, version: HOSTILE },
      ...{ healthy: false, reasons: [HOSTILE] },
    });
    const before: FleetLive = scene.live;
    scene.say({
      ...{ nodes: [hostile], sentence: HOSTILE, source: HOSTILE, replica: HOSTILE },
      slowest: [{ service: HOSTILE, node: HOSTILE, milliseconds: 5, at: before.at }],
    });
    const tab = await scene.open(`#/?${new URLSearchParams({ node: HOSTILE })}`);
    for (const where of [
      '.brand',
      '.health',
      '.facts',
      '.chosen',
      '.card:has-text("Slowest")',
      '.card:has-text("Modes")',
    ])
      await tab.sees(HOSTILE, where);
    await tab.page.focus('#map');
    await tab.sees(HOSTILE, '.tip');
    assert.equal(await tab.count('main img'), 0);
    assert.equal(await tab.page.title(), 'slicewire fleet');
    await tab.close();
    scene.say(before);
  });

  it('fits on a phone, in light and dark', async () => {
    for (const colorScheme of ['light', 'dark'] as const) {
      const tab = await scene.open('#/?node=node-0058', { viewport: { width: 360, height: 740 }, colorScheme });
      await has(tab, '.chosen', 'Device or resource busy');
      await until('the map is drawn', async () => (await coloursOf(tab)).length > 3);
      await tab.mustFit();
      await tab.close();
    }
  });
});

describe('the page of a fleet of 5,000 nodes', () => {
  let scene: FleetScene;
  before(async () => {
    scene = await FleetScene.create(fleetOf(5000, Date.now()));
  });
  after(() => scene.remove());

  it('has few elements, and draws every node in its colour', async () => {
    const tab = await scene.open();
    await has(tab, '.count', '5,000 nodes');
    await tab.mustFit();
    assert.ok((await tab.count('*')) < 2000, `${await tab.count('*')} elements`);
    await until('the map is drawn', async () => (await coloursOf(tab)).length > 5);
    const [before] = await coloursOf(tab);
    scene.say({ nodes: scene.live.nodes.map(({ name }) => fleetNode(name, { state: 'no agent', lag: 5000 })) });
    await has(tab, '.states', 'no agent 5,000');
    await until('the map changes', async () => (await coloursOf(tab))[0] !== before);
    await tab.page.locator('.health.bad').waitFor();
    scene.say({ nodes: fleetOf(5000, Date.now()).nodes });
    await has(tab, '.states', 'current 4,800');
    await tab.close();
  });

  it('takes keys and letters while hundreds of nodes change several times a second', async () => {
    const tab = await scene.open();
    await has(tab, '.count', '5,000 nodes');
    let round = 0;
    const timer = setInterval(() => {
      round += 1;
      const nodes = scene.live.nodes.map((node, i) =>
        i % 10 === round % 10
          ? fleetNode(node.name, { state: 'behind', lag: 100 + round, why: 'x' })
          : fleetNode(node.name),
      );
      scene.say({ nodes });
    }, 250);
    try {
      await tab.page.focus('#map');
      for (let i = 0; i < 40; i++) await tab.page.keyboard.press('ArrowRight');
      await has(tab, '.tip', 'node-0040');
      await tab.page.keyboard.press('/');
      await tab.page.keyboard.type('node-49');
      await has(tab, '.count', '100 of 5,000 nodes');
      await until('changes are shown', async () => (await tab.text('.states')).includes('behind 500'));
    } finally {
      clearInterval(timer);
    }
    await tab.close();
    assert.deepEqual(scene.thrown, []);
  });
});
