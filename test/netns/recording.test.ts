/** A recording of an agent under churn on a real kernel, replayed elsewhere: the same plans as its log has, byte for byte. */
import assert from 'node:assert/strict';
import { createReadStream } from 'node:fs';
import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { readRecording } from '../../src/inspect/history/reading.ts';
import { Replay, type ReplayedSync } from '../../src/inspect/replay/replay-recording.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

/** The folder to which the recordings are copied, for test/recordings. */
const KEEP = process.env.SLICEWIRE_KEEP_RECORDINGS;

/** The heads and lines of steps, as the log at debug level has them. */
function stepsInLog(agent: AgentProcess): string[] {
  return agent.log.filter(({ level, msg }) => level === 'debug' && /^[-+~] /.test(msg)).map(({ msg }) => msg);
}

/** Plans without their last lines, which have the counts. */
function stepsOf(syncs: readonly ReplayedSync[]): string {
  const lines = syncs.flatMap(({ planText }) => planText.split('\n'));
  return lines.filter((line) => line !== '' && !/^(nothing to do$|\d+ to create, )/.test(line)).join('\n');
}

for (const mode of ['iptables', 'nftables'] as const) {
  describe(`a recording of an agent in ${mode} mode`, () => {
    let lab: Lab;
    let node: ManifestNode;
    let folder: string;

    before(async () => {
      lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
      node = await ManifestNode.create(lab);
      folder = await mkdtemp(join(tmpdir(), 'slicewire-recording-'));
    });
    after(async () => {
      await node.clear();
      await rm(folder, { recursive: true });
      await lab.remove();
    });

    const endpoint = (n: number, ready = true) => ({
      addresses: [podAddress(n).v4],
      nodeName: 'node',
      conditions: { ready, serving: ready, terminating: false },
    });

    async function becomes(name: string, clusterIP: string, endpoints: readonly object[], port = 80): Promise<void> {
      await node.write(
        name,
        service({ name, spec: { clusterIP, ports: [{ name: 'http', port }], sessionAffinity: 'ClientIP' } }),
        slice({
          name: `${name}-1`,
          service: name,
          ports: [{ name: 'http', port: 8080 }],
          addressType: 'IPv4',
          endpoints,
        }),
      );
    }

    it('replays as the same plans', async () => {
      await becomes('web', '10.96.0.10', [endpoint(1), endpoint(2)]);
      const flags = ['--mode', mode, '-v', '4', '--record-dir', folder, '--iptables-min-sync-period', '0s'];
      const agent = node.start(...flags, '--nftables-min-sync-period', '0s', '--nftables-sync-period', '1s');
      await agent.synced();
      const after = async (change: () => Promise<void>) => {
        const since = agent.log.length;
        await change();
        await agent.synced(since);
      };
      await after(() => becomes('web', '10.96.0.10', [endpoint(1), endpoint(2, false), endpoint(3)]));
      await after(() => becomes('shop', '10.96.0.11', [endpoint(3)]));
      await after(() => becomes('web', '10.96.0.10', [endpoint(3)], 8080));
      await after(() => becomes('shop', '10.96.0.11', []));
      await after(() => becomes('shop', '10.96.0.11', [endpoint(1)]));
      await after(() => node.delete('web'));
      await agent.stop();
      const [name = ''] = await readdir(folder);
      if (KEEP !== undefined) await copyFile(join(folder, name), join(KEEP, `churn-${mode}.recording`));
      const lines = readRecording(createReadStream(join(folder, name)), assert.fail);
      const syncs = await Array.fromAsync(new Replay({ signal: NEVER }).syncs(lines));
      assert.ok(syncs.length >= 4, `${syncs.length} syncs`);
      for (const { number, isSame, why } of syncs) assert.notEqual(isSame, false, `sync ${number}: ${why}`);
      assert.ok(syncs.filter(({ isSame }) => isSame === true).length >= 4);
      // The log begins before the recording.
      assert.ok(
        stepsInLog(agent).join('\n').endsWith(stepsOf(syncs)),
        `${stepsInLog(agent).join('\n')}\n---\n${stepsOf(syncs)}`,
      );
    });
  });
}
