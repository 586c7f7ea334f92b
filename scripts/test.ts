/**
 * Run a tier of tests, or parts of it: `node scripts/test.ts quick`, `npm test -- unit conformance`. The tiers are in
 * test-tiers.ts. Ends with 0 when everything passed, 1 otherwise.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commandLine } from './arguments.ts';
import { runTiers } from './test-run.ts';
import { TIERS } from './test-tiers.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const print = (line: string) => process.stdout.write(`${line}\n`);

const [name = '', ...args] = process.argv.slice(2);
const tier = TIERS.find((one) => one.name === name);
if (tier === undefined) {
  const lines = TIERS.map((one) => `  ${one.name}: ${one.parts.map((part) => part.name).join(', ')}`);
  print(['usage: node scripts/test.ts TIER [PART…]', ...lines].join('\n'));
  process.exitCode = name === '--help' ? 0 : 2;
} else {
  const known = tier.parts.map((part) => part.name);
  const about = `Runs the tests of the tier ${name}, or only the parts that are named. Ends with 0 when all passed, otherwise with 1.`;
  const { words: parts, values } = commandLine(
    {
      ...{ command: tier.command, about, words: { name: 'PART', known } },
      options: { ci: { type: 'boolean', help: 'leaves out the parts that .ci/run leaves out, and says which' } },
    },
    args,
  );
  process.env.NODE_COMPILE_CACHE ??= join(ROOT, 'node_modules/.cache/compiled');
  const chosen = { ...tier, parts: tier.parts.filter((part) => parts.length === 0 || parts.includes(part.name)) };
  const isRoot = process.getuid?.() === 0;
  process.exitCode = await runTiers({ tiers: [chosen], isCI: values.ci, root: ROOT.replace(/\/$/, ''), isRoot, print });
}
