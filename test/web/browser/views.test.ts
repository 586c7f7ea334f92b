/** The views of the live page in Chromium, before an agent on a real kernel. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { podAddress } from '../../../src/cli/lab/lab.ts';
import { LONG, otherObjects, webService, webSlice } from './objects.ts';
import { BrowserScene } from './scene.ts';

describe('the live page', () => {
  let scene: BrowserScene;
  before(async () => {
    scene = await BrowserScene.create();
    await scene.node.write('others', ...otherObjects());
    await scene.node.write('web', webService());
    await scene.node.write('web-slice', webSlice(1));
    await scene.start();
    await scene.node.write('web-slice', webSlice(2));
  });
  after(() => scene.remove());

  it('says in one sentence how the node is, with what happened', async () => {
    const tab = await scene.open();
    await tab.sees(/Services? (?:is|are) in the kernel/);
    await tab.sees(/last change \d+ s ago, .* from event to kernel/);
    await tab.sees('nftables', '.facts');
    await tab.sees(/\d+ changes? in the last 15 minutes/, 'figcaption');
    assert.equal(await tab.count('.plot canvas'), 1);
    assert.equal(await tab.count('.lanes .lane:has-text("start")'), 1);
    assert.ok((await tab.count('.lanes .mark')) >= 1);
    await tab.sees('complete', 'table');
    await tab.sees('Service shop/wrong', '.card');
    assert.match(await tab.page.title(), /^Overview · node · slicewire$/);
    await tab.close();
  });

  it('finds Services by name, address, port, node port and endpoint address, and shows the state in words', async () => {
    const tab = await scene.open('#/services');
    await tab.sees('5 Services');
    assert.match(await tab.text('.row:has-text("shop/empty")'), /no endpoints/);
    assert.match(await tab.text('.row:has-text("shop/web")'), /^served .* LoadBalancer .*203\.0\.113\.9/);
    for (const search of ['web', '10.96.0.10', '30080', '203.0.113.9']) {
      await tab.page.fill('#search', search);
      await tab.sees('1 Service', '.count');
      await tab.sees('shop/web', '#rows');
      await tab.holds(`location.hash === '#/services?search=${search}'`);
    }
    await tab.page.fill('#search', podAddress(1).v4);
    await tab.sees('2 Services', '.count');
    await tab.page.fill('#search', 'no such Service');
    await tab.sees('No Service fits this search.');
    await tab.close();
  });

  it('shows all of a Service: frontends, each endpoint with the reason, the rules, the history', async () => {
    const tab = await scene.open('#/service?name=shop%2Fweb');
    await tab.sees('2 of 3 used');
    const frontends = await tab.text('table:has-text("Frontend")');
    for (const part of [
      'cluster IP 10.96.0.10 80/TCP',
      'node port',
      '30080/TCP',
      'load balancer 203.0.113.9',
      '192.0.2.0/24',
      '32000',
    ])
      assert.ok(frontends.includes(part), `${part} in ${frontends}`);
    const endpoints = await tab.text('table:has-text("EndpointSlice")');
    assert.match(endpoints, /10\.244\.1\.11:8080 used .*10\.244\.2\.11:8080 not used .*not ready.* other shop\/web-1/);
    await tab.sees('a client keeps its endpoint for 10,800 s');
    assert.match(await tab.text('pre'), /10\.96\.0\.10/);
    await tab.sees('EndpointSlice shop/web-1', 'table:has-text("Received")');
    await tab.view('#/service?name=shop%2Fnobody');
    await tab.sees(/no Service shop\/nobody/);
    assert.equal(tab.wrong.splice(0).length, 1, 'the answer 400 is in the console');
    await tab.close();
  });

  it('draws the answer of explain as a path, and its link carries the question', async () => {
    const tab = await scene.open('#/explain');
    await tab.page.fill('[name=from]', 'outside');
    await tab.page.fill('[name=to]', '203.0.113.9:80');
    await tab.page.keyboard.press('Enter');
    await tab.sees('balanced', '.verdict');
    assert.equal(new URL(tab.page.url()).hash, '#/explain?from=outside&to=203.0.113.9%3A80');
    await tab.view('#/explain?from=node&to=svc%2Fshop%2Fweb%3Ahttp');
    await tab.sees('balanced', '.verdict');
    const path = await tab.text('[data-testid=path]');
    assert.match(
      path,
      /^this node .*10\.96\.0\.10:80\/TCP .*shop\/web:http .*10\.244\.1\.11:8080 50 %.*10\.244\.1\.12:8080 50 %/,
    );
    assert.ok((await tab.count('.way .steps li')) >= 3, path);
    await tab.sees('10.244.2.11:8080', '.card:has-text("not used")');
    await tab.close();
  });

  it('says what the node answers from outside, to whom, and what looks wrong', async () => {
    const tab = await scene.open('#/exposure');
    await tab.sees('shop/web', 'table');
    const first = await tab.text('tbody tr');
    assert.match(first, /30080\/TCP node port shop\/web/);
    await tab.sees('192.0.2.0/24', 'table');
    await tab.page.fill('#search', '203.0.113.9');
    await tab.sees('1 entry', '.count');
    await tab.close();
  });

  it('fits on a phone', async () => {
    const tab = await scene.open('#/', { viewport: { width: 360, height: 740 } });
    await tab.sees('in the kernel');
    await tab.mustFit();
    for (const view of ['services', `service?name=shop%2F${LONG}`, 'service?name=shop%2Fweb', 'exposure'].concat(
      'explain?from=node&to=10.96.0.10:80',
    )) {
      await tab.view(`#/${view}`);
      await tab.sees(/shop\/|10\.96/, 'main');
      await tab.mustFit();
    }
    await tab.close();
  });

  it('is dark or light as the system, or as it was chosen', async () => {
    const tab = await scene.open('#/', { colorScheme: 'dark' });
    const back = () => tab.page.evaluate<string>('getComputedStyle(document.documentElement).backgroundColor');
    const dark = await back();
    await tab.page.emulateMedia({ colorScheme: 'light' });
    const light = await back();
    assert.notEqual(dark, light);
    await tab.page.click('button.theme');
    await tab.page.click('button.theme');
    assert.equal(await back(), dark, 'chosen');
    await tab.page.reload();
    await tab.sees('in the kernel');
    assert.equal(await back(), dark, 'remembered');
    await tab.close();
  });

  it('is used by the keyboard without a mouse', async () => {
    const tab = await scene.open();
    await tab.sees('in the kernel');
    const { keyboard } = tab.page;
    await keyboard.press('Tab');
    await keyboard.press('Enter');
    assert.equal(await tab.page.evaluate('document.activeElement.id'), 'main');
    await keyboard.press('/');
    await tab.holds(`document.activeElement.id === 'search'`);
    // The focus stays in the list while the answer is still to come.
    await keyboard.type('shop/');
    await keyboard.press('Enter');
    await tab.holds(`location.hash === '#/services?search=shop%2F'`);
    await tab.sees('5 Services', '.count');
    assert.equal(await tab.page.evaluate('document.activeElement.id'), 'rows');
    await keyboard.press('End');
    await keyboard.press('Enter');
    await tab.sees('shop/wrong', 'h1');
    await tab.page.goBack();
    await tab.holds(`location.hash === '#/services?search=shop%2F'`);
    await tab.close();
  });

  // One that begins again between Enter in the list and the view of the Service leads back to the list.
  it('begins a search once, by Enter or by the pause after the last letter', async () => {
    const tab = await scene.open('#/services');
    await tab.sees('5 Services', '.count');
    await tab.page.evaluate(
      'window.changes = []; const replace = history.replaceState.bind(history);' +
        'history.replaceState = (state, title, to) => { changes.push(to); replace(state, title, to); }',
    );
    await tab.page.locator('#search').pressSequentially('shop/');
    await tab.page.keyboard.press('Enter');
    await tab.holds(`location.hash === '#/services?search=shop%2F'`);
    await tab.page.waitForTimeout(500);
    const to = await tab.page.evaluate<string[]>('changes');
    assert.deepEqual(to, [...new Set(to)]);
    await tab.close();
  });
});
