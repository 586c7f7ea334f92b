/** Both ends of the traffic, in a lab without any rules. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Lab } from '../../src/cli/lab/lab.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { InsideProcess } from './inside.ts';
import type { TrafficAnswer, TrafficCommand, TrafficSinkAnswer, TrafficSinkCommand } from './traffic-protocol.ts';

const program = (name: string) => fileURLToPath(new URL(name, import.meta.url));

describe('client and server of the traffic', () => {
  it('count connections and bytes, and refuse to count a connection that does not stand', async () => {
    const lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
    const ends = { lab, namespace: 'node' };
    const sink = new InsideProcess<TrafficSinkCommand, TrafficSinkAnswer, never>({
      ...{ ...ends, program: program('./traffic-sink-inside.ts'), args: ['8080'] },
    });
    const client = new InsideProcess<TrafficCommand, TrafficAnswer, never>({
      ...{ ...ends, program: program('./traffic-inside.ts') },
    });
    const target = { address: '127.0.0.1', port: 8080 };
    try {
      const before = await sink.ask({ kind: 'close' });
      const connects = await client.ask({ kind: 'connects', target, seconds: 0.3 });
      assert.ok(connects.count >= 16 && connects.processor > 0 && connects.seconds >= 0.3);
      const between = await sink.ask({ kind: 'read' });
      assert.ok(between.processor > before.processor);
      const stream = await client.ask({ kind: 'stream', target, seconds: 0.3 });
      assert.ok(stream.count > 1e6, `${stream.count} bytes`);
      const nobody = { ...target, port: 8081 };
      await assert.rejects(client.ask({ kind: 'connects', target: nobody, seconds: 0.3 }), /connect: ECONNREFUSED/);
    } finally {
      await client.stop();
      await sink.stop();
      await lab.remove();
    }
  });
});
