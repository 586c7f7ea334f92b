/** Answers and files of others for slicewire-drained, mutated, under the sanitizers of the compiler. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { DRAINED_SOURCES, WARNINGS } from '../../../../scripts/executable/drained-program.ts';
import { problemOf } from '../../../../src/inspect/wire/envelope.ts';
import { realCommands } from '../../../../src/kernel/commands.ts';
import { NEVER } from '../../../helpers/proxy/rig.ts';
import { NO, YES } from '../fake-fleet.ts';

/** FUZZ_ROUNDS: more of them, by hand. */
const ROUNDS = process.env.FUZZ_ROUNDS ?? '20000';
/** The files that do no I/O. */
const PURE = ['address', 'answer', 'http', 'json', 'names', 'question', 'text'];

const http = (status: number, body: string) => `HTTP/1.1 ${status} X\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
const chunked = (body: string) =>
  `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${body.length.toString(16)};a=b\r\n${body}\r\n0\r\nT: 1\r\n\r\n`;

const SEEDS: Readonly<Record<string, string>> = {
  yes: http(200, JSON.stringify(YES)),
  no: http(504, JSON.stringify({ ...NO, of: 'a\\"\u0001é\u{1f600}', services: ['a', 'b'] })),
  chunked: chunked(JSON.stringify({ ...NO, nodes: { ...NO.nodes, leftOut: NO.nodes.behind, leftOutCount: 9 } })),
  interim: `HTTP/1.1 100 Continue\r\n\r\n${http(401, JSON.stringify(problemOf('no')))}`,
  json: JSON.stringify(NO),
  // A pointer to the name that was asked, and a record A of it, twice.
  dns: '\xc0\x0c\0\x01\0\x01\0\0\0\x05\0\x04\x7f\0\0\x01'.repeat(2),
  resolver: 'nameserver 10.96.0.10\nnameserver fd00::a\nsearch a.svc b.svc # x\noptions ndots:5 timeout:1 attempts:2\n',
  hosts: '127.0.0.1 localhost\n::1 ip6 slicewire-fleet\n10.0.0.1 SLICEWIRE-fleet x\n',
  flags:
    'http://slicewire-fleet.kube-system:10262\nhttp://[fd00::1:0:0:2]:80/\n1m30.5s250ms\n::ffff:10.0.0.1\n1:2:3:4:5:6:7:8\nshop/web-1\n',
};

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'slicewire-drained-fuzz-'));
});
after(() => rm(folder, { recursive: true }));

it(`breaks no rule of C in ${ROUNDS} rounds`, async () => {
  const program = join(folder, 'fuzz');
  const sources = [
    fileURLToPath(new URL('fuzz.c', import.meta.url)),
    ...PURE.map((name) => join(DRAINED_SOURCES, `${name}.c`)),
  ];
  const checks = ['-O1', '-g', '-fsanitize=address,undefined', '-fno-sanitize-recover=all'];
  const built = await realCommands.run(
    {
      file: 'gcc',
      args: ['-std=gnu11', ...WARNINGS, '-Werror', '-Wno-conversion', ...checks, '-o', program, ...sources],
    },
    NEVER,
  );
  assert.equal(built.exitCode, 0, built.stderr);
  const seeds = Object.entries(SEEDS).map(([name, text]) => ({
    file: join(folder, name),
    bytes: Buffer.from(text, name === 'dns' ? 'latin1' : 'utf8'),
  }));
  for (const { file, bytes } of seeds) await writeFile(file, bytes);
  const seed = String(Date.now());
  const { exitCode, stdout, stderr } = await realCommands.run(
    { file: program, args: [ROUNDS, seed, ...seeds.map(({ file }) => file)] },
    NEVER,
  );
  assert.equal(exitCode, 0, `seed ${seed}: ${stderr}`);
  // Some of the mutated answers are still answers, and were printed.
  assert.ok(Number(stdout) > 0);
});
