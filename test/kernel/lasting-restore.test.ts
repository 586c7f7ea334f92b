/** One process of iptables-restore for many restores; test/netns/lasting-restore.test.ts has the real tools. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CommandNotStarted, type CommandResult, type CommandRunner } from '../../src/kernel/commands.ts';
import { IptablesError, IptablesTools, LastingRestore } from '../../src/kernel/iptables-tools.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

/** What a process does with its n-th line; undefined: it goes on. */
type Tool = (line: string, n: number) => CommandResult | undefined;

const refused = (n: number): CommandResult => ({
  exitCode: 4,
  stdout: '',
  stderr: `iptables-restore v1.8.9 (nf_tables): \nline ${n}: RULE_APPEND failed (No such file or directory)\n`,
});

/** Counts processes and the lines of each. */
function fakeStart(tool: Tool): { start: NonNullable<CommandRunner['start']>; processes: string[][] } {
  const processes: string[][] = [];
  const start = () => {
    const said: string[] = [];
    processes.push(said);
    let hasEnded = false;
    return {
      get hasEnded() {
        return hasEnded;
      },
      ask(lines: Iterable<string>): Promise<CommandResult | undefined> {
        for (const line of lines) {
          said.push(line);
          const result = tool(line, said.length);
          hasEnded = result !== undefined;
          if (hasEnded) return Promise.resolve(result);
        }
        return Promise.resolve(undefined);
      },
      end: () => {
        hasEnded = true;
      },
    };
  };
  return { start, processes };
}

const TABLE = ['*nat', ':KUBE-A - [0:0]', 'COMMIT'];
const lasting = (start: NonNullable<CommandRunner['start']>, patience = 1000) =>
  new LastingRestore({ start, file: 'iptables-restore', args: ['--noflush'], patience });

describe('a lasting restore', () => {
  it('takes one process for many restores, and another after very many', async () => {
    const { start, processes } = fakeStart(() => undefined);
    const restore = lasting(start);
    for (let i = 0; i < 20; i++) assert.equal(await restore.restore(() => TABLE, NEVER), 'done');
    assert.deepEqual(
      processes.map((said) => said.filter((line) => line === 'COMMIT').length),
      [20],
    );
    for (let i = 0; i < 600; i++) await restore.restore(() => TABLE, NEVER);
    assert.equal(processes.length, 2);
  });

  it('counts the refused line from the first one of the restore', async () => {
    const { start, processes } = fakeStart((line, n) => (line.includes('bad') ? refused(n) : undefined));
    const run = () => Promise.reject(new Error('no process of its own is needed'));
    const tools = new IptablesTools({ run, start }, 'IPv4', 'nft');
    for (let i = 0; i < 3; i++) await tools.restore(() => TABLE, NEVER);
    const asked = tools.restore(() => ['*nat', '-A KUBE-A -j bad', 'COMMIT'], NEVER);
    await assert.rejects(asked, (error) => {
      assert.ok(error instanceof IptablesError);
      assert.equal(error.line, 2);
      assert.match(error.message, /^iptables-nft-restore failed \(exit status 4\): .*line 2: RULE_APPEND failed/);
      return error.isRefusal;
    });
    await tools.restore(() => TABLE, NEVER);
    assert.equal(processes.length, 2, 'the refused one ended');
  });

  it('gives up where the tool does not know the option', async () => {
    const { start, processes } = fakeStart(() => ({ exitCode: 2, stdout: '', stderr: 'unrecognized option' }));
    const ran: string[] = [];
    const run: CommandRunner['run'] = ({ file, args }) => {
      ran.push([file, ...args].join(' '));
      return Promise.resolve({ exitCode: 0, stdout: '', stderr: '' });
    };
    const tools = new IptablesTools({ run, start }, 'IPv6', 'legacy');
    for (let i = 0; i < 3; i++) await tools.restore(() => TABLE, NEVER);
    assert.equal(processes.length, 1);
    assert.deepEqual(ran, Array(3).fill('ip6tables-legacy-restore --noflush --wait 5'));
  });

  it('tries again where the tool could not be started once', async () => {
    const { start, processes } = fakeStart(() => undefined);
    const error = new CommandNotStarted('iptables-restore', 'Resource temporarily unavailable');
    const broken = { hasEnded: true, ask: () => Promise.reject(error), end: () => undefined };
    let starts = 0;
    const restore = lasting((command) => (starts++ === 0 ? broken : start(command)));
    assert.deepEqual(
      [await restore.restore(() => TABLE, NEVER), await restore.restore(() => TABLE, NEVER)],
      ['unable', 'done'],
    );
    assert.equal(processes.length, 1);
  });

  it('gives up where the tool prints no comments', async () => {
    let ended = 0;
    const start = () => ({
      hasEnded: false,
      ask: (_lines: Iterable<string>, _answer: string, signal: AbortSignal) =>
        new Promise<undefined>((_resolve, reject) =>
          signal.addEventListener('abort', () => {
            ended += 1;
            reject(signal.reason);
          }),
        ),
      end: () => undefined,
    });
    const restore = lasting(start, 20);
    // A timer of AbortSignal does not keep this process alive.
    const alive = setInterval(() => undefined, 1000);
    for (let i = 0; i < 2; i++) assert.equal(await restore.restore(() => TABLE, NEVER), 'unable');
    clearInterval(alive);
    assert.equal(ended, 1);
  });
});
