/** The commands of package.json: help, wrong arguments, and the tools that they install. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import packageJson from '../../package.json' with { type: 'json' };
import { commandLine, helpOf } from '../../scripts/arguments.ts';
import { TIERS } from '../../scripts/test-tiers.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SCRIPTS: Readonly<Record<string, string>> = packageJson.scripts;
/** Those whose arguments another program reads: slicewire, the type checker and the linter. */
const OTHERS = ['slicewire', 'demo', 'check', 'format'];
const OURS = Object.keys(SCRIPTS).filter((name) => !OTHERS.includes(name));

/** As npm runs a script: in the folder of package.json, with the programs of packages, and the arguments at its end. */
async function npmRun(name: string, ...args: string[]) {
  const path = `PATH=${join(ROOT, 'node_modules/.bin')}${delimiter}${process.env.PATH}`;
  const script = `${SCRIPTS[name]} "$@"`;
  const command = ['-C', ROOT, '-u', 'NODE_TEST_CONTEXT', path, 'sh', '-c', script, 'sh', ...args];
  return await realCommands.run({ file: 'env', args: command }, NEVER);
}
const typed = (name: string) => (name === 'test' ? 'npm test' : `npm run ${name}`);

describe('a command of package.json', { concurrency: 2 }, () => {
  for (const name of OURS) {
    it(`${name}: --help prints what it takes, and does nothing else`, async () => {
      const { exitCode, stdout, stderr } = await npmRun(name, '--help');
      assert.equal(exitCode, 0, stderr);
      assert.equal(stderr, '');
      assert.ok(stdout.startsWith(`usage: ${typed(name)} -- [OPTION…]`), stdout);
      assert.match(stdout, /\n {2}--help {2,}prints this\n$/);
      for (const line of stdout.split('\n')) assert.ok(line.length <= 100, line);
    });
  }

  for (const name of ['sim', 'test', 'texts', 'fuzz', 'vm']) {
    it(`${name}: names a wrong option in one line`, async () => {
      const { exitCode, stdout, stderr } = await npmRun(name, '--no-such-option=1');
      const rest = `"${typed(name)} -- --help" says what it takes`;
      assert.equal(stderr, `${typed(name)}: there is no option --no-such-option; ${rest}\n`);
      assert.deepEqual([exitCode, stdout], [2, '']);
    });
  }

  it('names a wrong option before it installs anything', async () => {
    const start = join(ROOT, 'scripts/start.sh');
    const args = [start, 'no-such-command', 'scripts/texts.ts', '--no-such-option'];
    const { exitCode, stderr } = await realCommands.run({ file: 'sh', args }, NEVER);
    assert.deepEqual(
      [exitCode, stderr],
      [2, 'npm run texts: there is no option --no-such-option; "npm run texts -- --help" says what it takes\n'],
    );
  });

  it('of the simulator installs the commands that its comparison with real kernels runs', () => {
    const tools = TIERS.find(({ name }) => name === 'sim')?.parts.flatMap((part) => part.tools) ?? [];
    const folder = join(ROOT, 'test/sim/real');
    const texts = ['compare.ts', 'node.ts', 'tools.ts']
      .map((file) => readFileSync(join(folder, file), 'utf8'))
      .join('\n');
    const run = [...texts.matchAll(/(?:\bfile: |\bmustRun\()'(\w+)'/g)].map(([, command = '']) => command);
    assert.ok(run.includes('ipset') && run.includes('ip'), run.join());
    // util-linux is everywhere.
    assert.deepEqual(
      run.filter((command) => command !== 'nsenter' && !tools.includes(command)),
      [],
    );
    for (const name of ['sim', 'sim:mutants']) {
      const installed = /start\.sh '([^']*)'/.exec(SCRIPTS[name] ?? '')?.[1]?.split(' ') ?? [];
      assert.deepEqual(installed.toSorted(), tools.toSorted());
    }
  });
});

describe('a command line', () => {
  const line = {
    command: 'npm run it',
    about: 'Does it.',
    options: {
      count: { type: 'string', value: 'N', least: 1, default: '5', help: 'so often' },
      file: { type: 'string', value: 'FILE', help: 'there' },
      loud: { type: 'boolean', help: 'with noise' },
    },
    words: { name: 'PART', known: ['one', 'two'] },
  } as const;

  it('has its values, with what is standard, and its words', () => {
    assert.deepEqual(commandLine(line, ['one', '--file', 'x', '--loud']), {
      values: { count: '5', file: 'x', loud: true },
      words: ['one'],
    });
    assert.deepEqual(commandLine(line, []).values, { count: '5', file: undefined, loud: false });
  });

  it('has a help with every option', () => {
    assert.equal(
      helpOf(line),
      `usage: npm run it -- [OPTION…] [PART…]

Does it.

PART: one, two

  --count N    so often (default: 5)
  --file FILE  there
  --loud       with noise
  --help       prints this
`,
    );
  });

  const WRONG: readonly (readonly [readonly string[], string])[] = [
    [['three'], 'three means nothing: it takes one, two'],
    [['--count', 'many'], '--count many: must be a number from 1 on'],
    [['--count=0'], '--count 0: must be a number from 1 on'],
    [['--file'], '--file needs a value: FILE'],
    [['--loud=yes'], '--loud takes no value'],
    [['--toString'], 'there is no option --toString'],
    [['-x'], 'there is no option -x'],
  ];
  for (const [args, problem] of WRONG) {
    it(`is wrong: ${args.join(' ')}`, async () => {
      const module = JSON.stringify(new URL('../../scripts/arguments.ts', import.meta.url));
      const program = `import { commandLine } from ${module}; commandLine(${JSON.stringify(line)}, process.argv.slice(1)); console.log('on');`;
      const words = ['--input-type=module', '--eval', program, '--', ...args];
      const { exitCode, stdout, stderr } = await realCommands.run({ file: process.execPath, args: words }, NEVER);
      assert.deepEqual([exitCode, stdout], [2, '']);
      assert.equal(stderr, `npm run it: ${problem}; "npm run it -- --help" says what it takes\n`);
    });
  }
});
