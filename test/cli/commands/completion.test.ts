/** What can follow the words of a command line. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { COMMANDS, flagsOf } from '../../../src/cli/commands/command-table.ts';
import { complete, completionText } from '../../../src/cli/commands/completion.ts';

/** `line`: after the name of the program, up to the cursor. */
const after = (line: string) => complete(line.split(' '));
const words = (line: string) => after(line).candidates.map(({ word }) => word);

describe('completion', () => {
  it('offers the commands, without the hidden ones', () => {
    const shown = COMMANDS.filter(({ isHidden }) => !isHidden).map(({ name }) => name);
    assert.deepEqual(words(''), [...shown, 'help']);
    assert.deepEqual(
      [words('re'), words('help co'), words('launch '), words('help run ')],
      [['record', 'replay'], ['controller', 'completion'], [], []],
    );
  });

  it('offers the flags of a command, also those that its help leaves out, and none twice', () => {
    for (const command of COMMANDS.filter(({ isHidden }) => !isHidden)) {
      const flags = flagsOf(command).filter(({ isHidden }) => !isHidden);
      assert.deepEqual(words(`${command.name} --`), [...flags.map(({ name }) => `--${name}`), '--help']);
    }
    assert.deepEqual(words('plan --conntrack-min'), ['--conntrack-min']);
    assert.deepEqual(words('plan --mode nftables --mod'), []);
    assert.deepEqual(words('plan -v 4 --v'), []);
    assert.deepEqual(words('--clus'), ['--cluster-cidr']);
    assert.deepEqual(words('run --show-hidden'), []);
    assert.deepEqual(words('run --feature-gates AllAlpha=true --feature-g'), ['--feature-gates']);
  });

  it('offers the values of a flag, in both forms', () => {
    assert.deepEqual(words('plan --mode '), ['iptables', 'ipvs', 'nftables', 'auto']);
    assert.deepEqual(words('plan --mode=n'), ['--mode=nftables']);
    assert.deepEqual(words('--mode=n'), ['--mode=nftables']);
    assert.deepEqual(words('status -o '), ['text', 'json']);
    assert.deepEqual(words('run --masquerade-all='), ['--masquerade-all=true', '--masquerade-all=false']);
    assert.deepEqual(words('run --oom-score-adj '), ['-999']);
    assert.deepEqual(words('run --no-such-flag='), []);
    assert.deepEqual(
      [after('run --config ').also, after('run --config=x').also, after('record ').also],
      ['files', 'files', 'files'],
    );
    assert.equal(after('run --record-dir ').also, 'folders');
  });

  it('offers the words of a command, and Services of the agent', () => {
    assert.deepEqual(words('explain '), ['pod/', 'node', 'outside']);
    assert.deepEqual(words('explain --rules -o json node '), ['svc/', 'nodeport:']);
    assert.deepEqual(after('explain node svc/shop/w').services, { before: 'svc/', typed: 'shop/w' });
    assert.equal(after('explain node nodeport:').services, undefined);
    assert.deepEqual(after('history sh').services, { before: '', typed: 'sh' });
    assert.deepEqual(words('completion '), ['bash', 'zsh', 'fish']);
    assert.deepEqual(words('verify -- '), []);
    assert.ok(words('verify ').includes('--output'));
  });

  it('tells a shell each word in a line', () => {
    const candidates = [{ word: 'svc/', about: 'a Service' }];
    assert.equal(completionText({ candidates, also: 'files' }), 'svc/\ta Service\n:files');
    const all = COMMANDS.flatMap(({ name }) => [...after(`${name} `).candidates, ...after(`${name} --`).candidates]);
    assert.deepEqual(
      all.filter(({ word, about }) => /[\s:]/.test(word.replace(/:$/, '')) || /[\t\n]/.test(about)),
      [],
    );
  });
});
