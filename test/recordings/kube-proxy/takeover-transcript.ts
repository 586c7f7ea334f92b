/**
 * docs/takeover.md: a takeover from kube-proxy that fails on purpose, and what its clients met.
 *
 *   node test/recordings/kube-proxy/takeover-transcript.ts     writes the document; as root
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { RecordedNode, VERSIONS } from './scene.ts';

const FILE = fileURLToPath(new URL('../../../docs/takeover.md', import.meta.url));
const BEGIN = '<!-- The rest is written by test/recordings/kube-proxy/takeover-transcript.ts -->';
/** A Service with one endpoint, a Pod of the node. */
const ONE = { address: '10.96.0.21', port: 80 } as const;
const BROKEN = [
  'add table ip vendor',
  'add chain ip vendor out { type filter hook output priority -300; }',
  'add rule ip vendor out ip daddr 192.0.2.80 drop',
].join('; ');

export async function transcript(): Promise<string> {
  const version = VERSIONS.at(-1) ?? '';
  const node = await RecordedNode.create({ version, mode: 'iptables' }, { pods: 3 });
  const inNode = async (...words: readonly string[]) => await node.lab.exec('node', 'sh', '-c', words.join(' '));
  const record = 'rm -f /run/slicewire/takeover*-$(stat -Lc %i /proc/self/ns/net)';
  try {
    await node.lab.serve('pod-3', 'TCP', 8080);
    await node.reset();
    await node.lab.exec('node', 'nft', BROKEN);
    const rules = "iptables-save | grep -v '^[#:]' | grep KUBE- | sort";
    const before = await inNode(rules);
    const outcomes = new Map<string, number>();
    let isOver = false;
    const asking = (async () => {
      while (!isOver) {
        const { outcome } = await node.lab.ask('pod-1', ONE);
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      }
    })();
    const agent = node.run('--mode=nftables', '--takeover=confirm', '--takeover-window=10s', '-v', '0');
    await agent.logged(({ msg }) => msg.includes('To try again'));
    const health = await inNode("curl -s http://127.0.0.1:10256/readyz | tr -d '\\t'");
    const after = await inNode(rules);
    isOver = true;
    await asking;
    await agent.stop();
    const total = outcomes.values().reduce((sum, count) => sum + count, 0);
    const { reasons } = JSON.parse(health) as { readonly reasons: readonly string[] };
    if (before !== after) throw new Error(`the rules are not as before:\n${before}\n${after}`);
    return [
      `## A takeover that fails on purpose\n`,
      `A node with the rules of kube-proxy ${version} in iptables mode, ${before.trim().split('\n').length} rules and jumps of IPv4.`,
      'Another program drops the packets of the node to the reserved address: so no connection of the agent to itself comes through.',
      'Meanwhile a Pod opens one connection after another to Service `shop/one`.\n',
      '```console',
      '$ slicewire run --mode=nftables --takeover=confirm --takeover-window=10s',
      ...agent.log.filter(({ msg }) => /takeover|synced/.test(msg)).map(({ level, msg }) => folded(`${level}: ${msg}`)),
      '$ curl http://127.0.0.1:10256/readyz',
      ...reasons.map((reason) => folded(`503: ${reason}`)),
      '```\n',
      "kube-proxy's rules are the same as before.",
      `Of the Pod's ${total} connections ${total - (outcomes.get('reply') ?? 0)} failed.\n`,
    ].join('\n');
  } finally {
    await inNode(record);
    await node.remove();
  }
}

/** At most 100 columns; further lines are indented. */
function folded(text: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + word.length > 98) {
      lines.push(line);
      line = `  ${word}`;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line].join('\n');
}

if (import.meta.main) {
  const [head = ''] = readFileSync(FILE, 'utf8').split(BEGIN);
  writeFileSync(FILE, `${head}${BEGIN}\n\n${await transcript()}`);
}
