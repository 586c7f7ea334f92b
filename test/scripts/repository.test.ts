/** The files of the repository that people and GitHub read first. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import packageJson from '../../package.json' with { type: 'json' };

const ROOT = new URL('../../', import.meta.url);
const text = (path: string) => readFileSync(new URL(path, ROOT), 'utf8');

interface Workflow {
  readonly jobs: Readonly<Record<string, { readonly steps: readonly { readonly run?: string }[] }>>;
}
interface Template {
  readonly body: readonly { readonly attributes: { readonly label?: string; readonly description?: string } }[];
}

describe('the repository', () => {
  it('has a README that is read in half a minute', () => {
    assert.ok(text('README.md').split('\n').length <= 90);
  });

  it('has every npm script that README and CONTRIBUTING name', () => {
    const names = ['README.md', 'CONTRIBUTING.md'].flatMap((file) =>
      [...text(file).matchAll(/npm run (?:-s )?([\w:-]*\w)/g)].map(([, name = '']) => name),
    );
    assert.ok(names.length > 10);
    const scripts: Readonly<Record<string, string>> = packageJson.scripts;
    assert.deepEqual(
      [...new Set(names)].filter((name) => scripts[name] === undefined),
      [],
    );
  });

  it('has every file of the source and the tests that CONTRIBUTING names', () => {
    const paths = [...text('CONTRIBUTING.md').matchAll(/`((?:src|test|scripts|\.github)\/[\w./-]+)`/g)];
    const missing = paths.map(([, path = '']) => path).filter((path) => !existsSync(new URL(path, ROOT)));
    assert.deepEqual(missing, []);
  });

  it('says of every package why it is there', () => {
    const [, table = ''] = text('docs/architecture.md').split('\n## Dependencies\n');
    const { dependencies, optionalDependencies, devDependencies } = packageJson;
    const packages = Object.keys({ ...dependencies, ...optionalDependencies, ...devDependencies });
    assert.deepEqual(
      packages.filter((name) => !table.includes(`\`${name}\``)),
      [],
    );
  });

  it('runs the same script in the workflow as everywhere', () => {
    const { jobs } = parse(text('.github/workflows/ci.yml')) as Workflow;
    const runs = Object.values(jobs).flatMap(({ steps }) => steps.flatMap(({ run = '' }) => run.trim().split('\n')));
    assert.ok(runs.includes('.ci/run'), runs.join('\n'));
  });

  it('asks for the version and a recording in the form for bugs', () => {
    const { body } = parse(text('.github/ISSUE_TEMPLATE/bug.yml')) as Template;
    const asked = body.map(({ attributes }) => `${attributes.label} ${attributes.description}`).join('\n');
    const commands = ['slicewire version', 'slicewire plan --output json', '-v 4', 'iptables-save', 'nft list table'];
    for (const command of [...commands, 'ipvsadm -Ln']) assert.ok(asked.includes(command), command);
    for (const name of ['feature', 'config']) {
      assert.ok(parse(text(`.github/ISSUE_TEMPLATE/${name}.yml`)) !== null, name);
    }
  });

  it('has a changelog whose first section is that of the version', () => {
    const [heading] = text('CHANGELOG.md').match(/^## .*$/m) ?? [];
    assert.match(
      heading ?? '',
      new RegExp(`^## \\[(${packageJson.version.replaceAll('.', '\\.')}\\] - \\d{4}-\\d\\d-\\d\\d|Unreleased\\])$`),
    );
  });
});
