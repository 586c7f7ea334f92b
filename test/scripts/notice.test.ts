/** LICENSE and NOTICE say what the executable and the image are made of. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { noticeText } from '../../scripts/notice.ts';
import runtime from '../../scripts/runtime.json' with { type: 'json' };
import { sha256 } from '../../scripts/runtime.ts';

const path = (name: string) => fileURLToPath(new URL(`../../${name}`, import.meta.url));
/** Of https://www.apache.org/licenses/LICENSE-2.0.txt. */
const APACHE = 'cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30';

describe('licences', () => {
  it('LICENSE is the text of Apache-2.0, unmodified', async () => {
    assert.equal(await sha256(path('LICENSE')), APACHE);
  });

  it('NOTICE is what scripts/notice.ts writes of the bundle and the Dockerfile', async () => {
    const isFresh = readFileSync(path('NOTICE'), 'utf8') === (await noticeText());
    assert.ok(isFresh, 'what is shipped changed: run node scripts/notice.ts');
  });

  it('NOTICE names packages of every kind, and nothing that is not shipped', () => {
    const notice = readFileSync(path('NOTICE'), 'utf8');
    const shipped = ['yaml 2', 'pino 10', 'sonic-boom 5', `Node.js ${runtime.version}`, 'iptables (GPL'];
    for (const name of shipped) assert.ok(notice.includes(`\n${name}`), name);
    for (const name of ['typescript', 'esbuild', 'fast-check', '@types/node'])
      assert.ok(!notice.includes(`\n${name} `), name);
  });
});
