/** The real iptables-restore, one process of it for many restores, in both variants and families. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { FAMILIES, type Family } from '../../src/base/address.ts';
import { Lab } from '../../src/cli/lab/lab.ts';
import { type CommandRunner, realCommands, startCommand } from '../../src/kernel/commands.ts';
import { IptablesError, IptablesTools, type IptablesVariant } from '../../src/kernel/iptables-tools.ts';
import { commandsIn } from '../helpers/kernel/namespace-commands.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

/** More lines than a pipe or a buffer of the tool takes. */
const MANY = 3000;

describe('one process of iptables-restore', () => {
  let lab: Lab;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
  });
  after(() => lab.remove());

  /** The tools, and the number of lasting processes and of others that they started for restores. */
  function toolsOf(family: Family, backend: IptablesVariant) {
    const { run } = commandsIn(lab, 'node');
    const count = { lasting: 0, single: 0 };
    const commands: CommandRunner = {
      run: (command, signal) => {
        if (command.file.endsWith('-restore')) count.single += 1;
        return run(command, signal);
      },
      start: ({ file, args }) => {
        count.lasting += 1;
        const inside = lab.inside('node', file, args);
        return startCommand(inside.file, inside.args, 1000);
      },
    };
    return { tools: new IptablesTools(commands, family, backend), count };
  }

  for (const backend of ['nft', 'legacy'] as const) {
    for (const family of FAMILIES) {
      it(`writes one restore after another, ${backend}, ${family}`, async () => {
        const { tools, count } = toolsOf(family, backend);
        const rules = () => tools.rules({ table: 'nat', chain: 'KUBE-LASTING' }, NEVER);
        for (let i = 1; i <= 4; i++) {
          const ports = Array.from(
            { length: i === 2 ? MANY : i },
            (_, n) => `-p tcp -m tcp --dport ${n + 1} -j ACCEPT`,
          );
          const texts = ports.map((rule) => `-A KUBE-LASTING ${rule}`);
          await tools.restore(() => ['*nat', ':KUBE-LASTING - [0:0]', ...texts, 'COMMIT', '*filter', 'COMMIT'], NEVER);
          assert.deepEqual(await rules(), ports, 'all of it is in the kernel when the restore has ended');
        }
        // Another program may have taken what an earlier restore made.
        const tool = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backend}`;
        await lab.exec('node', 'sh', '-c', `${tool} -t nat -F KUBE-LASTING && ${tool} -t nat -X KUBE-LASTING`);
        await tools.restore(() => ['*nat', ':KUBE-LASTING - [0:0]', '-A KUBE-LASTING -j ACCEPT', 'COMMIT'], NEVER);
        assert.deepEqual(await rules(), ['-j ACCEPT']);
        await tools.restore(() => ['*nat', ':KUBE-LASTING - [0:0]', '-X KUBE-LASTING', 'COMMIT'], NEVER);
        assert.equal(await rules(), undefined);
        assert.deepEqual(count, { lasting: 1, single: 0 });
      });

      it(`names the refused line of each restore, and goes on, ${backend}, ${family}`, async () => {
        const { tools, count } = toolsOf(family, backend);
        const good = ['*nat', ':KUBE-LASTING - [0:0]', '-A KUBE-LASTING -j ACCEPT', 'COMMIT'];
        for (const bad of ['-A KUBE-LASTING -p nothing', '-A KUBE-LASTING -j KUBE-NOWHERE', '-X KUBE-NOWHERE']) {
          for (let i = 0; i < 3; i++) await tools.restore(() => good, NEVER);
          const lines = [...good.slice(0, -1), bad, 'COMMIT'];
          const single = await realCommands
            .run({ ...lab.inside('node', fileOf(family, backend), ['--noflush']), input: () => lines }, NEVER)
            .then(({ stderr }) => stderr.trim().split('\n').slice(0, 5).join('; '));
          await assert.rejects(
            tools.restore(() => lines, NEVER),
            (error) => {
              assert.ok(error instanceof IptablesError, String(error));
              assert.ok(error.message.endsWith(single), `${error.message}\nbut a process of its own says\n${single}`);
              return error.isRefusal;
            },
          );
        }
        await tools.restore(() => good, NEVER);
        assert.deepEqual(count, { lasting: 4, single: 0 });
      });
    }
  }
});

function fileOf(family: Family, backend: IptablesVariant): string {
  return `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backend}-restore`;
}
