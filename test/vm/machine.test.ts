/**
 * The tests that need a kernel with IPVS, or another than this one (`*.vm.ts`): here when this kernel has IPVS, otherwise in
 * virtual machines (machine/README.md), two at a time.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { startChild } from '../../src/kernel/commands.ts';
import { AGENTS } from './agent-files.ts';
import { repeatResults } from './repeat-results.ts';
import { isIpvsHere } from './run-there.ts';

const HERE = fileURLToPath(new URL('.', import.meta.url));
/** `npm run test:stories` has the one that is left out, and agents.test.ts those about the agent itself. */
const FILES = readdirSync(HERE).filter(
  (file) => file.endsWith('.vm.ts') && file !== 'every-story.vm.ts' && !AGENTS.includes(file),
);
const isFirst = (file: string) => /^(killed|localhost-relay|sctp|stories)/.test(file);

/** Of about the same length. */
const PARTS = {
  'stories, SCTP, agents that are killed, and the relay': FILES.filter(isFirst),
  'all other tests': FILES.filter((file) => !isFirst(file)),
};

describe('on a kernel with IPVS', { concurrency: (await isIpvsHere()) ? 1 : Object.keys(PARTS).length }, () => {
  for (const [part, files] of Object.entries(PARTS)) it(part, (t) => repeatResults(t, files));
});

/** Stands in for QEMU: as the machine it writes its process id, and sleeps. The trial of KVM gets QEMU itself. */
const IN_PLACE_OF_QEMU = `#!/bin/sh
case "$*" in
  *what=run*) echo "$$" >"$0.pid.new" && mv "$0.pid.new" "$0.pid" && exec sleep 600 ;;
  *) PATH=\${PATH#*:} exec qemu-system-x86_64 "$@" ;;
esac
`;

describe('the virtual machine', () => {
  it('ends with the script that started it', { timeout: 120_000 }, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'slicewire-machine-'));
    let pid: number | undefined;
    t.after(() => {
      if (pid !== undefined && isThere(pid)) process.kill(pid);
      rmSync(folder, { recursive: true });
    });
    const qemu = join(folder, 'qemu-system-x86_64');
    writeFileSync(qemu, IN_PLACE_OF_QEMU, { mode: 0o755 });
    const script = join(HERE, 'machine/machine.sh');
    const child = startChild({
      file: 'env',
      args: [`PATH=${folder}:${process.env.PATH}`, 'sh', script, 'run', 'true'],
    });
    while (!existsSync(`${qemu}.pid`)) await Promise.race([pause(50), mustNotEnd(child.ended)]);
    pid = Number(readFileSync(`${qemu}.pid`, 'utf8'));
    await child.stop();
    assert.equal(isThere(pid), false);
  });
});

function isThere(pid: number): boolean {
  return existsSync(`/proc/${pid}`);
}

async function mustNotEnd(ended: Promise<number | undefined>): Promise<void> {
  assert.fail(`the script ended by itself, with status ${await ended}`);
}
