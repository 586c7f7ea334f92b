/** `--datapath-check`: connections through the rules of a real kernel find what stops packets, and nothing else. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { MODES, RecordedNode, VERSIONS } from '../recordings/kube-proxy/scene.ts';

/** Within this time, in milliseconds, what stops packets is found. */
const FOUND_MS = 5000;

/** Rules of another program that stop the packets of the agent to itself, by the hook where they do. */
const STOPS: Readonly<Record<string, string>> = {
  output: 'type filter hook output priority -300; ip daddr 192.0.2.80 drop',
  'output after the translation': 'type filter hook output priority 300; ct original ip daddr 192.0.2.80 reject',
  postrouting: 'type filter hook postrouting priority 0; ct original ip daddr 192.0.2.80 drop',
  prerouting: 'type filter hook prerouting priority 0; ct original ip daddr 192.0.2.80 drop',
  input: 'type filter hook input priority 300; ct original ip daddr 192.0.2.80 ct direction reply drop',
};

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
      await agent.stop();
      await node.remove();
    });
    const nft = async (text: string) => await node.lab.exec('node', 'nft', text);
    const health = async (path: string) =>
      await node.lab.exec('node', 'curl', '-s', '-w', '%{http_code}', `http://127.0.0.1:10256${path}`);
    const metrics = async () => await node.lab.exec('node', 'curl', '-s', 'http://127.0.0.1:10249/metrics');
    const isBroken = (family: string) => (line: { readonly msg: string; readonly family?: unknown }) =>
      line.msg.startsWith('the data path is broken') && line.family === family;
    const isWhole = ({ msg }: { readonly msg: string }) => msg.endsWith('is whole again');
    afterEach(() => node.lab.exec('node', 'sh', '-c', 'nft delete table inet broken 2>/dev/null; true'));

    it('passes both families while nothing is wrong', async () => {
      await new Promise((resolve) => setTimeout(resolve, 2 * FOUND_MS));
      assert.match(await health('/healthz/datapath'), /"healthy":true.*200$/s);
      const text = await metrics();
      for (const family of ['IPv4', 'IPv6']) {
        const of = `from="node",ip_family="${family}"`;
        assert.ok(text.includes(`slicewire_datapath_broken{${of}} 0`), text);
        assert.match(text, new RegExp(`slicewire_datapath_connections_total\\{${of},result="passed"\\} [2-9]`));
        assert.ok(!text.includes(`${of},result="failed"`), text);
      }
      assert.ok(!agent.log.some(isBroken('IPv4')) && !agent.log.some(isBroken('IPv6')));
    });

    for (const [hook, chain] of Object.entries(STOPS)) {
      it(`finds within 5 s that packets are stopped in ${hook}, and that they pass again`, async () => {
        const since = agent.log.length;
        const [base = '', rule = ''] = chain.split('; ');
        await nft(`add table inet broken; add chain inet broken c { ${base}; }; add rule inet broken c ${rule}`);
        await agent.logged(isBroken('IPv4'), { since, within: FOUND_MS });
        assert.match(await health('/healthz/datapath'), /a connection from this node to 192\.0\.2\.80:80.*503$/s);
        assert.match(
          await health('/healthz'),
          /"healthy":true.*200$/s,
          'load balancers are not told unless that is asked for',
        );
        await nft('delete table inet broken');
        await agent.logged(isWhole, { since, within: 3 * FOUND_MS });
        assert.match(await health('/healthz/datapath'), /200$/);
        assert.ok(!agent.log.slice(since).some(isBroken('IPv6')), 'the other family was whole all the time');
      });
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
