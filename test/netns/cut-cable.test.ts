/** A cut cable: packets to and from the API server are dropped, and nobody says so. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Lab } from '../../src/cli/lab/lab.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const INSIDE = fileURLToPath(new URL('./cut-cable-inside.ts', import.meta.url));

/** Seconds: the promise of docs/troubleshoot.md. */
const NOTICED = 45;
/** Seconds that a busy machine may add. */
const SLACK = 15;

describe('a cut cable to the API server', () => {
  let lab: Lab;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
  });
  after(() => lab.remove());

  it(`is noticed within ${NOTICED} s over HTTP/2 and over HTTP/1.1, and what was missed is read`, async (context) => {
    const command = lab.inside('node', process.execPath, [INSIDE]);
    const { exitCode, stdout, stderr } = await shellCommands.run(command, NEVER);
    assert.equal(exitCode, 0, `${stdout}\n${stderr}`);
    const [two, one] = JSON.parse(stdout) as { httpVersions: string[]; seconds: number; cause: string }[];
    assert.deepEqual([two?.httpVersions, one?.httpVersions], [['2.0'], ['1.1']]);
    for (const found of [two, one]) assert.ok((found?.seconds ?? 999) < NOTICED + SLACK, JSON.stringify(found));
    assert.match(two?.cause ?? '', /no answer to a PING/);
    assert.match(one?.cause ?? '', /connection lost: .*(ETIMEDOUT|EHOSTUNREACH)/);
    context.diagnostic(`noticed after ${two?.seconds} s (HTTP/2) and ${one?.seconds} s (HTTP/1.1)`);
  });
});
