/**
 * Run tiers of tests: `node scripts/test.ts quick kernel`. The tiers are in test-tiers.ts; the commands of package.json
 * run one each. Ends with 0 when everything passed, 1 otherwise.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runTiers } from './test-run.ts';
import { TIERS } from './test-tiers.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const print = (line: string) => process.stdout.write(`${line}\n`);

const names = process.argv.slice(2);
const tiers = TIERS.filter(({ name }) => names.includes(name));
if (names.length === 0 || tiers.length !== names.length) {
  print(`usage: node scripts/test.ts TIER…; the tiers are ${TIERS.map(({ name }) => name).join(', ')}`);
  process.exitCode = 1;
} else {
  process.env.NODE_COMPILE_CACHE ??= join(ROOT, 'node_modules/.cache/compiled');
  process.exitCode = await runTiers({ tiers, root: ROOT.replace(/\/$/, ''), isRoot: process.getuid?.() === 0, print });
}
