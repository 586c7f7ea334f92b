/** The hooks in docs/fleet.md: the one of the small program, and the shell that asks with curl, run with a made-up curl and clock. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { parse } from 'yaml';

const read = (path: string) => readFile(new URL(`../../../${path}`, import.meta.url), 'utf8');

describe('the hook with a command in docs/fleet.md', () => {
  it('copies the program from where the image has it, to where the hook starts it', async () => {
    const [, block] =
      /### A command in the container\n[\s\S]*?```yaml\n([\s\S]*?)```/.exec(await read('docs/fleet.md')) ?? [];
    const { spec } = parse(block ?? assert.fail('no block')) as { spec: PodSpec };
    const [container = assert.fail()] = spec.containers;
    const [init = assert.fail()] = spec.initContainers;
    const [program, ...flags] = container.lifecycle.preStop.exec.command;
    const [, from = '', to] = init.command;
    assert.match(await read('deploy/Dockerfile'), new RegExp(`^COPY --from=documents \\S+ ${from}$`, 'm'));
    assert.equal(program, join(to ?? '', basename(from)));
    assert.deepEqual([to, flags], ['/opt/slicewire/', ['--timeout', '30s']]);
    for (const { volumeMounts } of [container, init]) assert.equal(volumeMounts[0]?.mountPath, '/opt/slicewire');
  });
});

interface PodSpec {
  readonly containers: readonly (Hook & Mounts)[];
  readonly initContainers: readonly (Mounts & { readonly command: readonly string[] })[];
}

interface Mounts {
  readonly volumeMounts: readonly { readonly mountPath: string }[];
}

interface Hook {
  readonly lifecycle: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } };
}

/** The command of the hook: `sh -c SCRIPT`. */
async function recipe(): Promise<readonly string[]> {
  const page = await read('docs/fleet.md');
  const [, block] = /### curl or wget\n\n```yaml\n([\s\S]*?)```/.exec(page) ?? [];
  return (parse(block ?? assert.fail('no block')) as Hook).lifecycle.preStop.exec.command;
}

describe('the hook with curl in docs/fleet.md', () => {
  let folder = '';

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-recipe-'));
    const passes = (seconds: string) => `echo $(($(cat ${folder}/now) + ${seconds})) > ${folder}/now\n`;
    const programs = {
      date: `cat ${folder}/now\n`,
      sleep: passes('$1'),
      // The URL is the last argument.
      curl: `${passes('12')}for url; do :; done\necho "$url" >> ${folder}/asked\necho "$3" >> ${folder}/limits\nexit "$STATUS"\n`,
    };
    for (const [name, text] of Object.entries(programs)) {
      await writeFile(join(folder, name), `#!/bin/sh\n${text}`);
      await chmod(join(folder, name), 0o755);
    }
  });

  after(() => rm(folder, { recursive: true }));

  /** With a curl that takes 12 s and ends with this status. */
  async function run(status: number) {
    for (const [name, text] of Object.entries({ now: '1000\n', asked: '', limits: '' }))
      await writeFile(join(folder, name), text);
    const [file = assert.fail(), ...args] = await recipe();
    const env = { PATH: `${folder}:${process.env.PATH}`, STATUS: `${status}`, HOSTNAME: 'web-1' };
    const code = await new Promise((resolve) => execFile(file, args, { env }, (error) => resolve(error?.code ?? 0)));
    const linesOf = async (name: string) => (await readFile(join(folder, name), 'utf8')).trim().split('\n');
    const timeouts = (await linesOf('asked')).map((url) => new URL(url).searchParams.get('timeout'));
    return { code, timeouts, limits: await linesOf('limits') };
  }

  it('asks for all of the time that is left, and fails when it is over', async () =>
    assert.deepEqual(await run(22), { code: 1, timeouts: ['30s', '17s', '4s'], limits: ['32', '19', '6'] }));

  it('ends with the first yes', async () =>
    assert.deepEqual(await run(0), { code: 0, timeouts: ['30s'], limits: ['32'] }));
});
