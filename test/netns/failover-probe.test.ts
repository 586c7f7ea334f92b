/** What the agent's own questions to a Node tell, with real packets, firewalls and routes. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { NodesLab, POD_PORT } from '../helpers/cli/lab/nodes-lab.ts';

const INSIDE = fileURLToPath(new URL('../agent/failover/probe-inside.ts', import.meta.url));

describe('a question to an address and port', () => {
  it('tells an answer, silence, and a refusal that proves nothing', async (t) => {
    const lab = await NodesLab.create({ nodes: 1, pods: 1 });
    t.after(() => lab.remove());
    const pod = lab.pod(2, 1);
    const closed = async (port: number, ...target: string[]) =>
      await lab.exec('node-2', 'iptables', '-A', 'INPUT', '-p', 'tcp', '--dport', String(port), '-j', ...target);
    await closed(81, 'REJECT', '--reject-with', 'icmp-host-prohibited');
    await closed(82, 'REJECT');
    await closed(83, 'DROP');
    await lab.exec('node', 'ip', 'route', 'add', 'unreachable', '198.51.100.0/24');
    // The kernel asks for the address of a neighbour three times, a second apart.
    const asked = {
      [`${pod} ${POD_PORT} 5000`]: 'answer',
      [`${pod} 9 5000`]: 'answer',
      [`${pod} 81 5000`]: 'unknown',
      [`${pod} 82 5000`]: 'answer',
      [`${pod} 83 700`]: 'silence',
      '198.51.100.1 80 5000': 'unknown',
      '192.168.77.99 80 8000': 'silence',
    };
    const replies = JSON.parse(await lab.exec('node', process.execPath, INSIDE, ...Object.keys(asked)));
    assert.deepEqual(replies, Object.values(asked));
  });
});
