/** The families that a node can serve: a failure that passes costs none of them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { realOutside } from '../../src/agent/outside.ts';
import { openTools } from '../../src/agent/usable-families.ts';
import { type Command, CommandNotStarted, type CommandResult } from '../../src/host/commands.ts';
import { FakeClock } from '../helpers/fake-clock.ts';
import { NEVER } from '../helpers/rig.ts';

type Answer = (command: Command, nth: number) => CommandResult;

/** `answer` gets each command, and how often it ran before. */
async function opened(answer: Answer) {
  const counts = new Map<string, number>();
  const clock = new FakeClock({ hurried: true });
  const run = (command: Command) => {
    const name = [command.file, ...command.args].join(' ');
    const nth = counts.get(name) ?? 0;
    counts.set(name, nth + 1);
    return Promise.resolve().then(() => answer(command, nth));
  };
  const machine = {
    ...realOutside.machine,
    mayChangeNetwork: () => Promise.resolve(true),
    families: () => Promise.resolve(['IPv4', 'IPv6'] as const),
  };
  const { tools, problems } = await openTools({ iptablesBackend: 'nft' }, NEVER, { machine, commands: { run } }, clock);
  return { families: tools.map(({ family }) => family), problems, waits: clock.waits };
}

const done = (stdout: string): CommandResult => ({ exitCode: 0, stdout, stderr: '' });
const works: Answer = ({ args }) => done(args.includes('--version') ? 'iptables v1.8.9 (nf_tables)' : '-P POSTROUTING');
const isIPv6 = ({ file }: Command) => file.startsWith('ip6tables');

describe('the usable families', () => {
  it('are all, at once, where the tools work', async () => {
    assert.deepEqual(await opened(works), { families: ['IPv4', 'IPv6'], problems: [], waits: [] });
  });

  for (const [what, fails] of [
    ['fails', () => ({ exitCode: 1, stdout: '', stderr: 'ip6tables: Memory allocation problem.' })],
    [
      'cannot be started',
      () => {
        throw new CommandNotStarted('ip6tables', 'spawn ENOMEM');
      },
    ],
  ] as const) {
    it(`include one whose tool ${what} twice`, async () => {
      const answer: Answer = (command, nth) =>
        isIPv6(command) && command.args.includes('--version') && nth < 2 ? fails() : works(command, nth);
      const { families, problems, waits } = await opened(answer);
      assert.deepEqual([families, problems], [['IPv4', 'IPv6'], []]);
      assert.equal(waits.length, 2);
    });
  }

  it('leave out one whose tool goes on failing', async () => {
    const fails: Answer = (command, nth) =>
      isIPv6(command) ? { exitCode: 3, stdout: '', stderr: 'Table does not exist' } : works(command, nth);
    const { families, problems } = await opened(fails);
    assert.deepEqual(families, ['IPv4']);
    assert.match(problems.join('\n'), /Table does not exist/);
  });

  it('leave out one without a tool, and do not wait for it', async () => {
    const { families, problems, waits } = await opened((command, nth) => {
      if (isIPv6(command)) throw new CommandNotStarted(command.file, 'no such program');
      return works(command, nth);
    });
    assert.deepEqual([families, waits], [['IPv4'], []]);
    assert.match(problems.join('\n'), /no such program; install the package iptables/);
  });
});
