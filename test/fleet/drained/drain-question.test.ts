/** What a container knows of its Pod: its name, its namespace, its token. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { durationText } from '../../../src/base/duration.ts';
import { COMMANDS, flagsOf } from '../../../src/cli/commands/command-table.ts';
import { drainQuestion } from '../../../src/fleet/drained/drain-question.ts';
import { WrongQuestion } from '../../../src/inspect/wire/envelope.ts';

const FLAGS = {};

describe('the question of a container', () => {
  let account: string;
  before(async () => {
    account = await mkdtemp(join(tmpdir(), 'slicewire-account-'));
    await writeFile(join(account, 'namespace'), 'shop');
    await writeFile(join(account, 'token'), 'secret');
  });
  after(() => rm(account, { recursive: true }));
  const nowhere = '/no/such/account';

  it('takes the namespace of the ServiceAccount for a Pod without one', async () => {
    const { of, tokenFile } = await drainQuestion({ ...FLAGS, pod: 'web-1' }, { env: {}, account });
    assert.deepEqual([of, tokenFile], [{ pod: 'shop/web-1' }, join(account, 'token')]);
    const other = await drainQuestion({ ...FLAGS, pod: 'bank/web-1' }, { env: {}, account });
    assert.deepEqual(other.of, { pod: 'bank/web-1' });
  });

  it('takes name and namespace of the environment, and flags before it', async () => {
    const env = { POD_NAME: 'web-2', POD_NAMESPACE: 'bank' };
    assert.deepEqual((await drainQuestion(FLAGS, { env, account })).of, { pod: 'bank/web-2' });
    assert.deepEqual((await drainQuestion({ ...FLAGS, pod: 'web-3' }, { env, account })).of, { pod: 'bank/web-3' });
    const address = { ...FLAGS, address: 'fd00::1' };
    assert.deepEqual((await drainQuestion(address, { env, account })).of, { address: 'fd00::1' });
  });

  it('has the defaults that the help tells', async () => {
    const asked = await drainQuestion({ address: '10.0.0.1' }, { env: {}, account });
    const command = COMMANDS.find(({ name }) => name === 'drained') ?? assert.fail('no command');
    const help = new Map(flagsOf(command).map(({ name, initial }) => [name, initial]));
    assert.deepEqual([durationText(asked.timeout), asked.fleet.origin], [help.get('timeout'), help.get('fleet')]);
  });

  it('sends no token where the Pod has none, and the given one otherwise', async () => {
    const flags = { ...FLAGS, pod: 'shop/web-1' };
    assert.equal((await drainQuestion(flags, { env: {}, account: nowhere })).tokenFile, undefined);
    const tokenFile = join(account, 'token');
    assert.equal((await drainQuestion({ ...flags, tokenFile }, { env: {}, account: nowhere })).tokenFile, tokenFile);
  });

  it('says what is missing', async () => {
    const lost = drainQuestion({ ...FLAGS, pod: 'web-1' }, { env: {}, account: nowhere });
    const says = '--pod web-1: has no namespace, and /no/such/account/namespace is not there: write NAMESPACE/NAME';
    await assert.rejects(lost, (error) => error instanceof WrongQuestion && error.message === says);
    const wrong = drainQuestion(FLAGS, { env: { POD_NAME: 'Web_1', POD_NAMESPACE: 'shop' }, account });
    await assert.rejects(wrong, { message: 'POD_NAME Web_1: must be NAME or NAMESPACE/NAME of a Pod' });
  });

  it('refuses times and places that are none', async () => {
    for (const timeout of ['0s', '-1s', '10m1s', 'soon', '30']) {
      const asked = drainQuestion({ ...FLAGS, address: '10.0.0.1', timeout }, { env: {}, account });
      await assert.rejects(asked, { message: new RegExp(`^--timeout ${timeout}: must be a duration`) }, timeout);
    }
    for (const fleet of [
      'https://fleet',
      'http://fleet/path',
      'http://user@fleet',
      'fleet:10262',
      'http://fleet?a=b',
    ]) {
      const asked = drainQuestion({ ...FLAGS, address: '10.0.0.1', fleet }, { env: {}, account });
      await assert.rejects(asked, /: must be http:\/\/HOST:PORT of the fleet/, fleet);
    }
  });
});
