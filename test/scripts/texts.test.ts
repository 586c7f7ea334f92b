/** scripts/texts.ts finds every text that a person meets. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { allTexts, textsOf } from '../../scripts/texts.ts';

const found = (source: string, ...errors: string[]) =>
  textsOf('a.ts', source, new Set(errors)).map(({ line, kind, text }) => `${line} ${kind} ${text}`);

describe('scripts/texts.ts', () => {
  it('finds what is logged, thrown, reported of an object and shown as help', () => {
    const source = [
      "import { log } from './a sentence that is none.ts';",
      "log.info({ a: 'key' }, 'synced');",
      `log.warn(\`cannot follow \${kind} since \${since(\`\${a} b\`)}; trying again\`);`,
      "log[first ? 'info' : 'debug'](facts, 'nothing to do');",
      "throw new CannotRun('slicewire needs root');",
      "faults.setAside('spec.type', value, 'must be one of these');",
      "command.option('--once', 'sync once');",
      "({ gone: ['gauge', 'Rules of ours', 'ip_family'], help: 'how many' });",
      "const follows = 'the rest follows';",
    ];
    assert.deepEqual(found(source.join('\n'), 'CannotRun'), [
      '2 log synced',
      `3 log cannot follow \${kind} since \${since(\`\${a} b\`)}; trying again`,
      '4 log nothing to do',
      '5 error slicewire needs root',
      '6 fault must be one of these',
      '7 help sync once',
      '8 help Rules of ours',
      '8 help how many',
      '9 text the rest follows',
    ]);
  });

  it('is not led astray by comments, regular expressions, quotes in texts, and divisions', () => {
    const source = [
      "// it's a comment",
      "/* isn't it */ const quote = /['\"`/]/.test(text) ? a / b : c / d;",
      "const [one, two] = ['it\\'s some text', \"some 'quoted' words here\"];",
    ];
    assert.deepEqual(found(source.join('\n')), ["3 text it\\'s some text", "3 text some 'quoted' words here"]);
  });

  it('leaves out flags, rules, keys and names', () => {
    assert.deepEqual(found(`run('-j ACCEPT and more', 'IPv4 nat', \`\${a} \${b}\`, 'kube-ipvs0', 'default/web');`), []);
  });

  it('reads the whole program, whose texts of each kind are many', () => {
    const texts = allTexts();
    for (const kind of ['log', 'error', 'fault', 'help', 'text']) {
      assert.ok(texts.filter((text) => text.kind === kind).length > 50, kind);
    }
    const named = ['must not be negative', 'the initial lists are complete', 'print the version'];
    for (const text of named)
      assert.ok(
        texts.some((one) => one.text === text),
        text,
      );
  });
});
