/** The tools of a node whose kernel lacks SCTP. */
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Put an iptables-restore into a folder that refuses rules with SCTP, as the real one does there. `restore`: path of the real one. */
export async function withoutSctp(folder: string, restore: string): Promise<void> {
  const wrapper = join(folder, 'iptables-restore');
  await writeFile(
    wrapper,
    `#!/bin/sh
input=$(cat)
line=$(printf '%s\\n' "$input" | grep -n -m1 -e '-p sctp' | cut -d: -f1)
if [ -n "$line" ]; then
  echo 'iptables-restore v1.8.9 (nf_tables): ' >&2
  echo "line $line: RULE_APPEND failed (No such file or directory): rule in chain KUBE-X" >&2
  exit 4
fi
printf '%s\\n' "$input" | ${restore} "$@"
`,
  );
  await chmod(wrapper, 0o755);
}
