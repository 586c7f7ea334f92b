/** The files of the page: who gets them, with which headers, and in which encoding. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { PAGE_ASSETS } from '../../scripts/executable/program.ts';
import { pageFiles } from '../../scripts/page.ts';
import type { HttpRequest } from '../../src/serve/http.ts';
import { AGENT_PAGE, FLEET_PAGE, pageAnswer, type ReadPage } from '../../src/serve/page.ts';
import { refusalOf } from '../../src/serve/query-handler.ts';

const read = (name: string) => Promise.resolve(gzipSync(`the file ${name}`));

function asked(path: string, more: Partial<HttpRequest> = {}): HttpRequest {
  return {
    ...{ method: 'GET', path, query: new URLSearchParams(), host: 'localhost:10249' },
    ...{ local: '127.0.0.1', remote: '127.0.0.1', signal: new AbortController().signal },
    body: () => Promise.resolve(''),
    ...more,
  };
}

const answer = async (path: string, more: Partial<HttpRequest> = {}, from: ReadPage = read) =>
  await pageAnswer(AGENT_PAGE, from, (one) => refusalOf(one, true), asked(path, more));

describe('the files of the page', () => {
  it('are at / and below /page/, and nothing else is', async () => {
    const types: unknown[] = [];
    for (const path of ['/', '/page/page.js', '/page/page.css', '/page/icon.svg'])
      types.push((await answer(path))?.headers?.['content-type']);
    assert.deepEqual(types, [
      'text/html; charset=utf-8',
      'text/javascript; charset=utf-8',
      'text/css; charset=utf-8',
      'image/svg+xml',
    ]);
    for (const path of ['/page', '/page/', '/page/../page/page.js', '/page/page.js.gz', '/page.html', '/favicon.ico'])
      assert.equal(await answer(path), undefined, path);
  });

  it('of the fleet have their own HTML and script', async () => {
    const fleet = async (path: string) => await pageAnswer(FLEET_PAGE, read, () => undefined, asked(path));
    const bodies: string[] = [];
    for (const path of ['/', '/page/fleet.js', '/page/page.css', '/page/icon.svg'])
      bodies.push(String((await fleet(path))?.body));
    assert.deepEqual(bodies, ['the file fleet.html', 'the file fleet.js', 'the file page.css', 'the file icon.svg']);
    assert.equal(await fleet('/page/page.js'), undefined);
    assert.equal(await answer('/page/fleet.js'), undefined);
    assert.equal((await fleet('/'))?.headers?.['content-security-policy'], "default-src 'self'");
  });

  it('run nothing but themselves, and ask no other host', async () => {
    const { headers } = (await answer('/')) ?? {};
    assert.equal(headers?.['content-security-policy'], "default-src 'self'");
    assert.equal(headers?.['x-content-type-options'], 'nosniff');
    assert.equal(headers?.['referrer-policy'], 'no-referrer');
    assert.equal(headers?.['cross-origin-opener-policy'], 'same-origin');
    assert.equal(headers?.['cross-origin-resource-policy'], 'same-origin');
    assert.equal(headers?.['access-control-allow-origin'], undefined);
  });

  it('are refused to those who may not ask questions', async () => {
    for (const more of [
      { remote: '192.0.2.1' },
      { local: '192.0.2.2', host: '192.0.2.2' },
      { host: 'evil.example' },
      { host: undefined },
    ]) {
      const refused = await answer('/', more);
      assert.equal(refused?.status, 403);
      assert.doesNotMatch(String(refused?.body), /the file/);
    }
  });

  it('are sent as they are kept to a browser, and unpacked to others', async () => {
    for (const encodings of ['gzip', 'br, gzip;q=0.8', 'GZIP', '*', 'br;q=0, *;q=0.1', '*;q=0, gzip']) {
      const packed = await answer('/', { encodings });
      assert.equal(packed?.headers?.['content-encoding'], 'gzip', encodings);
      assert.equal(gunzipSync(packed?.body as Buffer).toString(), 'the file page.html');
    }
    for (const encodings of [
      undefined,
      '',
      'br',
      'gzip;q=0',
      'gzip; q=0.000',
      'xgzip',
      'gzip;q=0, *',
      '*, gzip;q=0',
      'gzip;q=x',
      'gzip;q=-1',
    ]) {
      const plain = await answer('/', encodings === undefined ? {} : { encodings });
      assert.equal(plain?.headers?.['content-encoding'], undefined, `${encodings}`);
      assert.equal(String(plain?.body), 'the file page.html');
    }
  });

  it('are not sent again to a browser that has them', async () => {
    const etag = (await answer('/'))?.headers?.etag ?? '';
    assert.match(etag, /^"[\w-]{43}"$/);
    const same = await answer('/', { known: etag });
    assert.deepEqual([same?.status, same?.body], [304, '']);
    assert.equal((await answer('/', { known: `"other", W/${etag}` }))?.status, 304);
    assert.equal((await answer('/', { known: '"other"' }))?.status, 200);
    assert.notEqual((await answer('/', { encodings: 'gzip' }))?.headers?.etag, etag, 'other bytes have another name');
    const newer = await answer('/', { known: etag }, () => Promise.resolve(gzipSync('a newer one')));
    assert.equal(newer?.status, 200);
  });

  it('that are not built are not found, with what to do', async () => {
    const none = await answer('/', {}, () => Promise.reject(new Error('the page is not built: run it')));
    assert.deepEqual([none?.status, none?.body], [503, 'the page is not built: run it\n']);
  });

  it('are the same bytes each time, small, and without a word of style or script in the HTML', async () => {
    const [one, two] = [await pageFiles(), await pageFiles()];
    assert.deepEqual(one, two);
    assert.deepEqual([...one.keys()], [...PAGE_ASSETS], 'the executable has all of them');
    for (const name of ['page', 'fleet']) {
      const text = (ending: string) => gunzipSync(one.get(`${name}.${ending}`) ?? '').toString();
      assert.doesNotMatch(text('html'), /<style|style=|<script>|\son\w+=/);
      assert.match(text('html'), new RegExp(`src="/page/${name}\\.js"`));
      assert.doesNotMatch(text('js'), /["'`]node:|__require|sourceMappingURL/);
      const loaded = [`${name}.html`, `${name}.js`, 'page.css', 'icon.svg'];
      const bytes = loaded.reduce((sum, file) => sum + (one.get(file)?.length ?? 0), 0);
      assert.ok(bytes > 20_000 && bytes < 80_000, `${bytes} bytes`);
    }
  });
});
