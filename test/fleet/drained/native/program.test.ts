/** `slicewire-drained` as a process, its size, and its memory. */
import assert from 'node:assert/strict';
import { readFile, stat } from 'node:fs/promises';
import { before, describe, it } from 'node:test';
import { compilerOf, MAX_DRAINED_BYTES, makeDrainedProgram } from '../../../../scripts/executable/drained-program.ts';
import { OWN_PLATFORM, platformNamed } from '../../../../scripts/executable/platform.ts';
import { sha256 } from '../../../../scripts/runtime.ts';
import { realCommands, startChild } from '../../../../src/kernel/commands.ts';
import { NEVER } from '../../../helpers/proxy/rig.ts';
import { describeCommand } from '../command-stories.ts';
import { FakeFleet, NO, YES } from '../fake-fleet.ts';
import { madeDrainedProgram } from '../forms.ts';

/** Kilobytes of memory of its own, which the limit of a Pod would count. */
const MAX_MEMORY = 1024;
/** Bytes of all that it may map, where an answer may have one megabyte. */
const ADDRESS_SPACE = 4 << 20;

/** The kind of a timer in /proc/net/tcp (proc_net_tcp(5)): the next probe of a silent connection. */
const KEEP_ALIVE = 2;

/** The timer of the connection to this port of loopback, and the seconds until it ends. */
async function timerTo(port: number) {
  const remote = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const lines = (await readFile('/proc/net/tcp', 'utf8')).split('\n').map((line) => line.trim().split(/\s+/));
  const established = lines.find((fields) => fields[2] === remote && fields[3] === '01');
  const [kind = '', left = ''] = established?.[5]?.split(':') ?? [];
  return { kind: Number.parseInt(kind, 16), left: Number.parseInt(left, 16) / 100 };
}

describeCommand('slicewire-drained', async () => [await madeDrainedProgram()]);

describe('the program slicewire-drained', () => {
  let program: string;
  before(async () => {
    program = await madeDrainedProgram();
  });

  it('is small, and needs no library and no loader', async () => {
    const { size } = await stat(program);
    assert.ok(size < MAX_DRAINED_BYTES, `${size} bytes`);
    const { stdout } = await realCommands.run(
      { file: 'readelf', args: ['--dynamic', '--program-headers', program] },
      NEVER,
    );
    assert.match(stdout, /Dynamic section/);
    assert.doesNotMatch(stdout, /INTERP|NEEDED|GNU_STACK.*\n.*E /);
  });

  it('is the same when it is made again', async () => {
    const again = await madeDrainedProgram();
    assert.equal(await sha256(again), await sha256(program));
  });

  it('names the compiler that is missing', async () => {
    const platform = {
      ...platformNamed(OWN_PLATFORM),
      name: 'linux-other',
      compiler: { command: 'no-such-gcc', packages: ['gcc-other'] },
    };
    assert.equal(compilerOf(platform), 'no-such-gcc');
    await assert.rejects(makeDrainedProgram(platform, '/dev/null'), {
      message: 'linux-other: there is no no-such-gcc, which makes slicewire-drained. Install gcc-other (on Debian)',
    });
  });

  it('waits with less than a megabyte, after a no and many nodes', async () => {
    const behind = Array.from({ length: 20 }, (_, i) => ({ node: `node-${i}`, since: null, why: 'busy '.repeat(500) }));
    const fleet = await FakeFleet.open({ status: 504, body: { ...NO, nodes: { ...NO.nodes, behind } } }, 'silent');
    try {
      const child = startChild({ file: program, args: ['--pod', 'shop/web-1', '--fleet', fleet.url.origin] });
      await Promise.race([fleet.asks(2), child.ended]);
      const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
      const timer = await timerTo(Number(fleet.url.port));
      await child.stop();
      const peak = Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]);
      assert.ok(peak > 0 && peak < MAX_MEMORY, `${peak} kB`);
      // TCP asks whether the other machine is still there, after at most 5 s.
      assert.ok(timer.kind === KEEP_ALIVE && timer.left <= 5, JSON.stringify(timer));
    } finally {
      await fleet.close();
    }
  });

  it('needs no more than four megabytes for the largest answer', async () => {
    const why = 'x'.repeat(1 << 20);
    const fleet = await FakeFleet.open(
      { status: 503, says: why.slice(1000) },
      { status: 200, body: { ...YES, why: why.slice(1000) } },
    );
    try {
      const args = [`--as=${ADDRESS_SPACE}`, program, '--pod', 'shop/web-1', '--fleet', fleet.url.origin, '-o', 'json'];
      const { exitCode, stdout, stderr } = await realCommands.run({ file: 'prlimit', args }, NEVER);
      assert.deepEqual([exitCode, stderr], [0, '']);
      assert.equal((JSON.parse(stdout) as { why: string }).why.length, why.length - 1000);
      assert.equal(fleet.asked.length, 2);
    } finally {
      await fleet.close();
    }
  });
});
