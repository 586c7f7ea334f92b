/** Archives are the same for the same files, whoever wrote them when, in whichever order. */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { writeBundle, writeTarGz } from '../../scripts/release/archive.ts';
import { run } from '../../scripts/run.ts';
import { sha256 } from '../../scripts/runtime.ts';

const EPOCH = 1_795_000_000;

describe('an archive', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'slicewire-archive-'));
  });
  after(() => rmSync(folder, { recursive: true }));

  const files = (name: string, order: readonly string[], mode: number, time: number): string => {
    const root = join(folder, name, 'chart');
    mkdirSync(join(root, 'templates'), { recursive: true });
    for (const file of order) {
      writeFileSync(join(root, file), file);
      chmodSync(join(root, file), mode);
      utimesSync(join(root, file), time, time);
    }
    symlinkSync('values.yaml', join(root, 'link'));
    return join(folder, name);
  };

  it('does not depend on times, rights of others and the order of writing', async () => {
    const names = ['Chart.yaml', 'values.yaml', 'templates/a.yaml', 'templates/B.yaml'];
    const first = files('first', names, 0o600, 1000);
    const second = files('second', [...names].reverse(), 0o664, 2000);
    for (const from of [first, second]) await writeTarGz({ from, name: 'chart', file: `${from}.tgz`, epoch: EPOCH });
    assert.equal(await sha256(`${second}.tgz`), await sha256(`${first}.tgz`));
    const listed = await run('env', ['TZ=UTC', 'tar', '-t', '-v', '--full-time', '-f', `${first}.tgz`]);
    const rows = listed.trim().split('\n');
    assert.deepEqual(
      rows.map((row) => row.split(/\s+/).slice(5).join(' ')),
      [
        'chart/',
        'chart/Chart.yaml',
        'chart/link -> values.yaml',
        'chart/templates/',
        'chart/templates/B.yaml',
        'chart/templates/a.yaml',
        'chart/values.yaml',
      ],
    );
    for (const row of rows) assert.match(row, /^(?:d|l|-)\S+ (?:0\/0|root\/root) +\d+ 2026-11-18 11:06:40 /);
    assert.match(rows[1] ?? '', /^-rw-r--r-- /);
  });

  it('of a platform has the executable under both of its names, and everything beside it', async () => {
    const texts = join(folder, 'texts');
    const units = join(folder, 'units');
    for (const one of [texts, units]) mkdirSync(one);
    for (const name of ['slicewire', 'drained', 'LICENSE']) writeFileSync(join(texts, name), '#!/bin/sh\necho "$0"\n');
    writeFileSync(join(units, 'slicewire.service'), '');
    const source = {
      ...{ name: 'slicewire-1.0.0-linux-arm64', epoch: EPOCH, sbom: '{}\n', units },
      executable: join(texts, 'slicewire'),
      drained: join(texts, 'drained'),
      licences: { LICENSE: join(texts, 'LICENSE') },
      documents: new Map([['man/man1/slicewire.1', '.TH\n']]),
    };
    const archive = join(folder, 'platform.tar.gz');
    mkdirSync(join(folder, 'files'));
    await writeBundle(source, join(folder, 'files'), archive);
    const unpacked = join(folder, 'unpacked');
    mkdirSync(unpacked);
    await run('tar', ['-x', '-f', archive, '-C', unpacked]);
    const root = join(unpacked, source.name);
    assert.deepEqual((await run('find', [root, '-not', '-type', 'd', '-printf', '%P\\n'])).trim().split('\n').sort(), [
      'LICENSE',
      'kubectl-slicewire',
      'man/man1/slicewire.1',
      'sbom.spdx.json',
      'slicewire',
      'slicewire-drained',
      'systemd/slicewire.service',
    ]);
    for (const name of ['kubectl-slicewire', 'slicewire-drained'])
      assert.equal(await run(join(root, name), []), `${join(root, name)}\n`);
  });
});
