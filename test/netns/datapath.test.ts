/** `--datapath-check`: connections through the rules of a real kernel find what stops packets, and nothing else. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { POD_DEVICE } from '../../src/kernel/pod-network.ts';
import { until } from '../helpers/base/until.ts';
import { MODES, RecordedNode, VERSIONS } from '../recordings/kube-proxy/scene.ts';

/** Within this time, in milliseconds, what stops packets is found. */
const FOUND_MS = 5000;

/** Rules of another program that stop the packets of the agent to itself, by the hook where they do: of what the node sends, … */
const STOPS: Readonly<Record<string, string>> = {
  output: 'type filter hook output priority -300; ip daddr 192.0.2.80 drop',
  'output after the translation': 'type filter hook output priority 300; ct original ip daddr 192.0.2.80 reject',
  postrouting: 'type filter hook postrouting priority 0; ct original ip daddr 192.0.2.80 drop',
  prerouting: 'type filter hook prerouting priority 0; ct original ip daddr 192.0.2.80 drop',
  input: 'type filter hook input priority 300; ct original ip daddr 192.0.2.80 ct direction reply drop',
};

/** … and of what comes from Pods. */
const STOPS_OF_PODS: Readonly<Record<string, string>> = {
  'prerouting, of what enters the node': 'type filter hook prerouting priority -300; ip daddr 192.0.2.80 drop',
  forward: 'type filter hook forward priority 0; ct original ip daddr 192.0.2.80 drop',
  'postrouting, of what is forwarded':
    'type filter hook postrouting priority 0; oifname slicewire0 ct original ip daddr 192.0.2.80 drop',
};
const BY_PATH = [
  { from: 'node', stops: STOPS, text: /a connection from this node to 192\.0\.2\.80:80.*503$/s },
  { from: 'pod', stops: STOPS_OF_PODS, text: /a connection as of a Pod of this node to 192\.0\.2\.80:81.*503$/s },
];

/** Whether the node has the device of the agent's Pod. */
async function hasDevice({ lab }: RecordedNode): Promise<boolean> {
  return (await lab.exec('node', 'ip', '-br', 'link')).includes(POD_DEVICE);
}

for (const mode of MODES) {
  describe(`the check of the data path in ${mode} mode`, () => {
    let node: RecordedNode;
    let agent: AgentProcess;
    before(async () => {
      node = await RecordedNode.create({ version: VERSIONS.at(-1) ?? '', mode });
      await node.lab.exec('node', 'nft', 'flush', 'ruleset');
      await node.reset();
      agent = node.run(`--mode=${mode}`, '--datapath-check=report');
      await agent.synced();
    });
    after(async () => {
      // As after a kill: nothing but the end of the process removes the device.
      assert.ok(agent.pid !== undefined);
      process.kill(agent.pid, 'SIGKILL');
      await agent.ended;
      await until('no device is left', async () => !(await hasDevice(node)));
      await node.remove();
    });
    const nft = async (text: string) => await node.lab.exec('node', 'nft', text);
    const health = async (path: string) =>
      await node.lab.exec('node', 'curl', '-s', '-w', '%{http_code}', `http://127.0.0.1:10256${path}`);
    const metrics = async () => await node.lab.exec('node', 'curl', '-s', 'http://127.0.0.1:10249/metrics');
    interface Line {
      readonly msg: string;
      readonly family?: unknown;
      readonly from?: unknown;
    }
    const isBroken =
      (family: string, from = ['node', 'pod']) =>
      (line: Line) =>
        line.msg.startsWith('the data path is broken') && line.family === family && from.includes(String(line.from));
    afterEach(() => node.lab.exec('node', 'sh', '-c', 'nft delete table inet broken 2>/dev/null; true'));

    it('passes both families while nothing is wrong', async () => {
      await new Promise((resolve) => setTimeout(resolve, 2 * FOUND_MS));
      assert.match(await health('/healthz/datapath'), /"healthy":true.*200$/s);
      const text = await metrics();
      const paths = ['node', 'pod'].flatMap((from) => ['IPv4', 'IPv6'].map((family) => [from, family]));
      for (const [from, family] of paths) {
        const of = `from="${from}",ip_family="${family}"`;
        assert.ok(text.includes(`slicewire_datapath_broken{${of}} 0`), text);
        assert.match(text, new RegExp(`slicewire_datapath_connections_total\\{${of},result="passed"\\} [2-9]`));
        assert.ok(!text.includes(`${of},result="failed"`), text);
      }
      assert.ok(!agent.log.some(isBroken('IPv4')) && !agent.log.some(isBroken('IPv6')));
    });

    for (const { from, stops, text } of BY_PATH) {
      for (const [hook, chain] of Object.entries(stops)) {
        it(`finds within 5 s that packets are stopped in ${hook}, and that they pass again`, async () => {
          const since = agent.log.length;
          const [base = '', rule = ''] = chain.split('; ');
          await nft(`add table inet broken; add chain inet broken c { ${base}; }; add rule inet broken c ${rule}`);
          await agent.logged(isBroken('IPv4', [from]), { since, within: FOUND_MS });
          assert.match(await health('/healthz/datapath'), text);
          assert.match(
            await health('/healthz'),
            /"healthy":true.*200$/s,
            'load balancers are not told unless that is asked for',
          );
          await nft('delete table inet broken');
          // Both paths may have been broken.
          await until('the data path is whole', async () => (await health('/healthz/datapath')).endsWith('200'));
          assert.ok(!agent.log.slice(since).some(isBroken('IPv6')), 'the other family was whole all the time');
        });
      }
    }

    it('is no alarm when another program removes the rules and the agent writes them again', async () => {
      const since = agent.log.length;
      for (let i = 0; i < 3; i++) {
        await node.lab.exec('node', 'nft', 'flush', 'ruleset');
        await agent.logged(({ msg }) => msg === 'synced', { since: agent.log.length });
      }
      await new Promise((resolve) => setTimeout(resolve, FOUND_MS));
      assert.ok(!agent.log.slice(since).some(isBroken('IPv4')), agent.text());
      assert.match(await health('/healthz/datapath'), /200$/);
    });

    it('is no alarm when another program removes the device of the Pod, and makes another one', async () => {
      const since = agent.log.length;
      await node.lab.exec('node', 'ip', 'link', 'delete', POD_DEVICE);
      // At most one a minute.
      await until('another device', () => hasDevice(node), 70_000);
      await new Promise((resolve) => setTimeout(resolve, FOUND_MS));
      assert.ok(!agent.log.slice(since).some(isBroken('IPv4')), agent.text());
      assert.match(
        await metrics(),
        /slicewire_datapath_connections_total\{from="pod",ip_family="IPv4",result="unknown"\} [1-9]/,
      );
      assert.match(await health('/healthz/datapath'), /200$/);
    });

    it('answers this node alone', async () => {
      // Health check ports of Services are 3102x.
      const list = String.raw`ss -4Hltn | awk '{print $4}' | grep -v -e :3102 -e '^127' -e '^0\.'`;
      const [address, port] = (await node.lab.exec('node', 'sh', '-c', list)).trim().split(':');
      const ask = (from: string) =>
        node.lab.exec(from, 'bash', '-c', `exec 3<>/dev/tcp/${address}/${port}; timeout 2 cat <&3`).catch(String);
      assert.match(await ask('node'), /^[0-9a-f]{32}$/);
      assert.doesNotMatch(await ask('pod-1'), /[0-9a-f]{32}/);
    });
  });
}
