/** Questions to an agent in IPVS mode while endpoints change: they are answered, and no sync notices them. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Lab } from '../../src/cli/lab/lab.ts';
import { verificationSchema } from '../../src/inspect/wire/verification.ts';
import { startChild } from '../../src/kernel/commands.ts';
import { until } from '../helpers/base/until.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import type { Told } from '../helpers/serve/asker.ts';

const ASKER = fileURLToPath(new URL('../helpers/serve/asker.ts', import.meta.url));
/** Milliseconds: the machine may be emulated. */
const PATIENCE = 300_000;
/** Few, because each has a listing of its own, and a question is given up after 25 s. */
const SERVICES = 20;
const CHANGES = 12;
const ROUNDS = 8;
const PATHS = ['/explain?from=node&to=10.96.1.7:80', '/verify', '/metrics'];
/** The refusal of a question on a machine that is too slow. */
const LATE = /no answer within \d+ s/;

/** Services from 10.96.1.1 on, each with an endpoint whose last number says which change it is of. */
function objects(change: number): object[] {
  return Array.from({ length: SERVICES }, (_, i) => i + 1).flatMap((n) => [
    service({ name: `web-${n}`, spec: { clusterIP: `10.96.1.${n}`, ports: [{ port: 80 }] } }),
    slice({ name: `web-${n}-1`, service: `web-${n}`, endpoints: [`10.244.${n}.${change + 1}`, `10.244.${n}.200`] }),
  ]);
}

describe('questions to an agent in IPVS mode', () => {
  let lab: Lab;
  let node: ManifestNode;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 1, remotePods: 0, signal: NEVER });
    node = await ManifestNode.create(lab);
    await node.write('web', ...objects(0));
  });
  after(async () => {
    await node.clear();
    await lab.remove();
  });

  it('are answered while endpoints change, and disturb no sync', async () => {
    const agent = node.start('--mode=ipvs', '--service-metrics');
    await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
    const since = agent.log.length;
    const told: Told[] = [];
    const inside = lab.inside('node', process.execPath, [ASKER, 'http://127.0.0.1:10249', ...PATHS]);
    const asker = node.keep(startChild({ ...inside, onLine: (line) => told.push(JSON.parse(line) as Told) }));
    const answered = (path: string) => told.filter((one) => one.path === path && one.status === 200).length;
    const rounds = () => Math.min(...PATHS.map(answered));
    await until('the first answers', () => rounds() >= 1, PATIENCE);
    for (let change = 1; change <= CHANGES; change++) {
      await node.write('web', ...objects(change));
      const last = ` -r 10.244.${SERVICES}.${change + 1}:8080 `;
      const isWritten = async () => (await lab.exec('node', 'ipvsadm', '-Sn')).includes(last);
      await until(`change ${change} in the kernel`, isWritten, PATIENCE).catch((error: Error) => {
        throw new Error(`${error.message}; the log:\n${agent.text()}`);
      });
      // While endpoints change all the time, a slow machine reads the rules again and again.
      const before = told.length;
      await until('another answer', () => told.length > before, PATIENCE);
    }
    await until('answers to all questions', () => rounds() >= ROUNDS, PATIENCE);
    await asker.stop();
    const refused = told.filter(({ status, text }) => status !== 200 && !LATE.test(text)).map(({ text }) => text);
    const complaints = agent.log.slice(since).filter(({ level }) => level !== 'info' && level !== 'debug');
    const foreign = told
      .filter(({ path, status }) => path === '/verify' && status === 200)
      .flatMap(({ text }) => verificationSchema.parse(JSON.parse(text)).differences)
      .filter(({ because }) => because === '');
    assert.deepEqual({ refused, complaints, foreign }, { refused: [], complaints: [], foreign: [] });
  });
});
