/** What the tools of iptables print: rules and counters of a chain, and why they failed. */
import { CommandNotStarted, type CommandResult } from '../../../src/kernel/commands.ts';
import { IptablesError, IptablesTools } from '../../../src/kernel/iptables-tools.ts';
import { mutateText } from '../mutate/text.ts';
import { soundNumber } from '../sound/text.ts';
import { sure, type Target } from '../target.ts';
import { soundRule } from './save.ts';

const LISTED = `-N KUBE-SVC-X
-A KUBE-SVC-X ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -c 17 1020 -j KUBE-MARK-MASQ
-A KUBE-SVC-X -m comment --comment "shop/web:http -> 10.244.1.11:8080" -m statistic --mode random --probability 0.50000000000 -c 4294967296 99999999999 -j KUBE-SEP-A
-A KUBE-SVC-X -m comment --comment "a \\"quoted\\" -c 1 2 -j X" -c 3 180 -j KUBE-SEP-B
`;
const FAILURES = [
  'iptables: No chain/target/match by that name.\n',
  'iptables-restore v1.8.9 (nf_tables): line 7 failed\n',
  'iptables-restore: line 12 failed\n',
  'iptables-restore v1.8.9 (nf_tables): \nline 5: CHAIN_ADD failed (No such file or directory): chain X\n',
  'Another app is currently holding the xtables lock; still -9s 0us time ahead to have a chance to grab the lock...\n',
  "Error occurred at line: 3\nTry `iptables-restore -h' or 'iptables-restore --help' for more information.\n",
];

const toolsWith = (result: CommandResult) => new IptablesTools({ run: () => Promise.resolve(result) }, 'IPv4', 'nft');

const never = new AbortController().signal;
const QUERY = { table: 'nat', chain: 'KUBE-SVC-X' } as const;

async function unlessFailed(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof IptablesError) && !(error instanceof CommandNotStarted)) throw error;
    const line = error instanceof IptablesError ? error.line : undefined;
    if (line !== undefined) soundNumber(line, 'line', 0, Number.MAX_SAFE_INTEGER);
  }
}

export const iptables: Target = {
  name: 'iptables',
  declared: [],
  seeds: [LISTED, ...FAILURES].map((text) => Buffer.from(text)),
  mutate: mutateText,
  async run(input) {
    const text = input.toString();
    const good = toolsWith({ exitCode: 0, stdout: text, stderr: '' });
    for (const rule of (await good.rules(QUERY, never)) ?? []) soundRule(rule);
    for (const count of await good.counters(QUERY, never))
      sure(count >= 0 && Number.isFinite(count), () => `a counter of ${count}`);
    const bad = toolsWith({ exitCode: text.length % 5, stdout: '', stderr: text });
    await unlessFailed(bad.hasChain(QUERY, never));
    await unlessFailed(bad.restore(() => [], never));
  },
};
