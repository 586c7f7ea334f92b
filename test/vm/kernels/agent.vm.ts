/** The agent as a process on another kernel, in each mode: it serves, answers questions, starts again with nothing to do, and leaves nothing. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { LAB, Lab, podAddress, remotePodAddress } from '../../../src/cli/lab/lab.ts';
import { explanationSchema } from '../../../src/inspect/wire/explanation.ts';
import { verificationSchema } from '../../../src/inspect/wire/verification.ts';
import { MODE_NAMES } from '../../../src/proxy/model/modes.ts';
import { ManifestNode } from '../../helpers/cli/lab/manifest-node.ts';
import { NODE_PORT, POD_PORT, WEB, webObjects } from '../../helpers/cli/lab/web.ts';
import { SLICEWIRE } from '../../helpers/cli/slicewire.ts';
import { shellCommands } from '../../helpers/kernel/shell-commands.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';

/** Milliseconds: the machine is emulated. */
const PATIENCE = 120_000;
const TIMEOUT = 10_000;

describe('the agent as a process', () => {
  let lab: Lab;
  let node: ManifestNode;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 2, remotePods: 1, signal: NEVER });
    for (const n of [1, 2]) await lab.serve(`pod-${n}`, 'TCP', POD_PORT);
    await lab.serve('other', 'TCP', POD_PORT, remotePodAddress(1).v4);
    node = await ManifestNode.create(lab);
    await node.write('web', ...webObjects([1, 2]));
  });
  afterEach(() => node.stop());
  after(async () => {
    await node.clear();
    await lab.remove();
  });

  const answersOf = async (from: string, address: string, port: number) => {
    const hosts = new Set<string>();
    for (let i = 0; i < 40 && hosts.size < 3; i++) {
      const answer = await lab.ask(from, { address, port, timeout: TIMEOUT });
      assert.equal(answer.outcome, 'reply', JSON.stringify(answer));
      if (answer.outcome === 'reply') hosts.add(answer.by);
    }
    return [...hosts].sort();
  };

  /** A question to the agent, as an administrator asks it on the node. */
  const ask = async (...words: readonly string[]) => {
    const [file = '', ...args] = SLICEWIRE;
    const inside = lab.inside('node', file, [...args, ...words, '-o', 'json']);
    const { exitCode, stdout, stderr } = await shellCommands.run(inside, NEVER);
    assert.equal(exitCode, 0, stderr);
    return JSON.parse(stdout) as unknown;
  };

  /** All rules, sets and servers of the node, in their own words. */
  const rules = async () => {
    const programs = [
      ['nft', 'list', 'ruleset'],
      ['ipset', 'list', '-name'],
      ['ipvsadm', '-Sn'],
    ] as const;
    return await Promise.all(programs.map(([file, ...args]) => lab.exec('node', file, ...args)));
  };

  for (const mode of MODE_NAMES)
    it(`${mode}: serves, explains, finds the kernel as it should be, starts again with nothing to do, and leaves nothing`, async () => {
      const flag = `--mode=${mode}`;
      const start = async () => {
        const agent = node.start(flag);
        const { msg } = await agent.logged(({ msg: text }) => text.startsWith('synced'), { within: PATIENCE });
        return { agent, said: msg };
      };
      const { agent, said } = await start();
      assert.equal(said, 'synced');
      const all = ['other', 'pod-1', 'pod-2'];
      assert.deepEqual(await answersOf('pod-1', WEB, 80), all);
      assert.deepEqual(await answersOf('client', LAB.node.v4, NODE_PORT), all);

      const { verdict } = explanationSchema.parse(await ask('explain', podAddress(1).v4, `${WEB}:80`));
      assert.deepEqual([verdict.kind, verdict.endpoints.length], ['balanced', 3]);
      assert.equal(verificationSchema.parse(await ask('verify')).equal, true);

      await agent.stop();
      const again = await start();
      assert.equal(again.said, 'synced, nothing to do');
      const complaints = [...agent.log, ...again.agent.log].filter(
        ({ level }) => level !== 'info' && level !== 'debug',
      );
      assert.deepEqual(complaints, []);

      await again.agent.stop();
      const cleaned = await node.run('cleanup');
      assert.equal(cleaned.status, 0, cleaned.error);
      const [tables = '', sets, servers] = await rules();
      assert.deepEqual([/KUBE-SERVICES|slicewire/.test(tables), sets, servers], [false, '', ''], tables);
    });
});
