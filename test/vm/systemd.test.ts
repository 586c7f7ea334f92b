/**
 * The systemd unit: systemd has nothing to say against it, and under a real systemd, in the virtual machine
 * (machine/README.md), slicewire starts, is watched, and stops in it. systemd-inside.sh does that and reports what it saw;
 * this file judges it.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { realCommands } from '../../src/kernel/commands.ts';
import { REMOVED_VARIABLES } from '../../src/kernel/environment.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { type Mark, runUnderSystemd } from './run-there.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const UNIT = here('../../systemd/slicewire.service');
const MARK: Mark = '@seen ';
/** It takes three minutes on a machine that does nothing else. */
const TIMEOUT_SECONDS = 900;
/** How much the sandbox leaves open, as `systemd-analyze security` has it: from 0 to 10. */
const EXPOSURE = 2.7;
/** CAP_NET_ADMIN (12) and CAP_NET_RAW (13). */
const CAPABILITIES = ((1n << 12n) | (1n << 13n)).toString(16).padStart(16, '0');

interface Seen {
  readonly name: string;
  readonly lines: readonly string[];
}

/** What the unit says of a key, once for each line. */
const settings = (key: string) =>
  readFileSync(UNIT, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith(`${key}=`))
    .map((line) => line.slice(key.length + 1));

const run = (file: string, ...args: string[]) => realCommands.run({ file, args }, NEVER);

describe('the systemd unit', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'slicewire-systemd-'));
  });
  after(() => rmSync(folder, { recursive: true }));

  it('is right, as systemd reads it', async () => {
    const copy = join(folder, 'slicewire.service');
    const text = readFileSync(UNIT, 'utf8');
    // Not installed here.
    writeFileSync(copy, text.replace('ExecStart=/usr/local/bin/slicewire', 'ExecStart=/bin/true'));
    const { exitCode, stdout, stderr } = await run('systemd-analyze', 'verify', '--man=no', copy);
    const said = (stdout + stderr).split('\n').filter((line) => line !== '');
    const [, version] = /^systemd (\d+)/.exec((await run('systemd-analyze', '--version')).stdout) ?? assert.fail();
    const steps = ['RestartSteps', 'RestartMaxDelaySec'].map(
      (key) => `Unknown key '${key}' in section [Service], ignoring.`,
    );
    // Then the pauses between starts are all of the same length.
    const unknown = Number(version) < 254 ? steps : [];
    assert.deepEqual(
      { exitCode, said: said.map((line) => line.replace(/^\S+:\d+: /, '')) },
      { exitCode: 0, said: unknown },
    );
  });

  it('is started again however it ended, is never given up, and does not start for ever', () => {
    const of = (key: string) => settings(key).at(-1);
    assert.deepEqual(
      ['Type', 'Restart', 'RestartSec', 'RestartSteps', 'RestartMaxDelaySec', 'StartLimitIntervalSec'].map(of),
      ['notify', 'always', '1s', '5', '30s', '0'],
    );
    assert.equal(of('TimeoutStartSec'), '5min');
    assert.equal(of('ExecReload'), '/bin/kill -HUP $MAINPID');
  });

  it('removes the variables that the executable ignores, and those that end Node.js', () => {
    const unset = settings('UnsetEnvironment').flatMap((names) => names.split(' '));
    assert.deepEqual(
      unset.sort(),
      [...REMOVED_VARIABLES.keys(), 'NODE_CHANNEL_FD', 'NODE_REPL_EXTERNAL_MODULE'].sort(),
    );
  });

  it(`leaves no more open than ${EXPOSURE} of 10`, async () => {
    const threshold = `--threshold=${EXPOSURE * 10}`;
    const { exitCode, stdout } = await run('systemd-analyze', 'security', '--offline=true', threshold, UNIT);
    assert.equal(exitCode, 0, stdout);
  });

  describe('under systemd', () => {
    const seen = new Map<string, readonly string[]>();
    let status: number | undefined;
    let said = '';

    before(async () => {
      const executable = process.env.SLICEWIRE_PROGRAM ?? (await built());
      const ran = await runUnderSystemd<Seen>({
        command: ['sh', here('./systemd-inside.sh'), executable],
        timeoutSeconds: TIMEOUT_SECONDS,
        mark: MARK,
        onResult: ({ name, lines }) => seen.set(name, lines),
      });
      status = ran.status;
      said = ['The machine said:', ...ran.said, 'The journal:', ...(seen.get('journal') ?? [])].join('\n');
    });

    async function built(): Promise<string> {
      const output = join(folder, 'slicewire');
      const { exitCode, stderr } = await run(process.execPath, here('../../scripts/build.ts'), '--output', output);
      assert.equal(exitCode, 0, stderr);
      return output;
    }

    /** What was seen; `check` throws when it is not right. */
    function judge(name: string, check: (lines: readonly string[]) => void): void {
      const lines = seen.get(name) ?? assert.fail(`${name} was not seen`);
      try {
        check(lines);
      } catch (error) {
        const more = status === 0 ? said : '';
        throw new Error(`${name} is not right:\n${lines.join('\n')}\n${more}`, { cause: error });
      }
    }

    const equals = (name: string, expected: readonly string[]) =>
      judge(name, (lines) => assert.deepEqual(lines, expected));

    const has = (name: string, ...expected: readonly string[]) =>
      judge(name, (lines) => {
        for (const line of expected) assert.ok(lines.includes(line), `${line} is missing`);
      });

    const hasRules = (name: string) =>
      judge(name, (lines) => {
        const text = lines.join('\n');
        assert.match(text, /^-A KUBE-SERVICES -d 10\.96\.0\.10\/32 .*--dport 80 -j KUBE-SVC-/m);
        assert.match(text, /^-A KUBE-SVC-.* -j DNAT --to-destination 10\.244\.1\.11:8080$/m);
      });

    const IS_READY = ['ActiveState=active', 'SubState=running', 'StatusText=the rules are in place', 'Result=success'];

    it('is observed to the end', () => {
      assert.equal(status, 0, said);
    });

    it('all else there is well, and no container', () => {
      equals('failed units', []);
      equals('container', ['none']);
    });

    it('has started when its rules are in place', () => {
      equals('start: rules before', []);
      hasRules('start: rules');
      has('start: state', 'Type=notify', 'NRestarts=0', ...IS_READY);
      judge('start: health', (lines) => assert.match(lines.join(''), /lastUpdated/));
    });

    it('has the capabilities NET_ADMIN and NET_RAW, and no others', () => {
      for (const mode of ['start', 'ipvs']) {
        has(`${mode}: rights`, `CapEff: ${CAPABILITIES}`, `CapPrm: ${CAPABILITIES}`, `CapBnd: ${CAPABILITIES}`);
      }
    });

    it('is in a sandbox', () => {
      has('start: rights', 'NoNewPrivs: 1', 'Seccomp: 2');
      has('start: mounts', '/ ro', '/run rw');
    });

    it('reports in time that it is alive', () => {
      has('start: state', 'WatchdogUSec=30s');
      const at = (name: string) => Number(seen.get(name)?.join('').split('=')[1]);
      const microseconds = at('ping: next') - at('ping: first');
      assert.ok(microseconds > 0 && microseconds < 30e6, `${microseconds} µs between two`);
    });

    it('is started again when it hangs, and its rules stand meanwhile', () => {
      has('hang: journal', 'slicewire.service: Watchdog timeout (limit 30s)!');
      has('hang: journal', "slicewire.service: Failed with result 'watchdog'.");
      has('hang: state', 'NRestarts=1', ...IS_READY);
      equals('hang: rules meanwhile', seen.get('hang: rules') ?? []);
    });

    it('reads its configuration again at `systemctl reload`, and goes on', () => {
      equals('reload: status', ['0']);
      has('reload: state', 'NRestarts=1', ...IS_READY);
      judge('reload: log', (lines) => assert.match(lines.join('\n'), /SIGHUP: nothing to reload/));
      equals('reload: pid', seen.get('reload: pid before') ?? []);
    });

    it('is started again after a signal that systemd takes for a clean end', () => {
      has('killed: state', 'NRestarts=2', ...IS_READY);
      equals('killed: rules', seen.get('hang: rules') ?? []);
    });

    it('stops well, and its rules stay', () => {
      // ExecMainCode=1: it exited (CLD_EXITED).
      has(
        'stop: state',
        'ActiveState=inactive',
        'SubState=dead',
        'Result=success',
        'ExecMainCode=1',
        'ExecMainStatus=0',
      );
      hasRules('stop: rules');
    });

    it('is started again where it outgrows its limit of memory, and its rules stay', () => {
      equals('outgrow: limit', [`MemoryMax=${1536 * 2 ** 20}`]);
      const before = seen.get('outgrow: rules before') ?? [];
      assert.ok(before.length > 0);
      equals('outgrow: rules meanwhile', before);
      equals('outgrow: rules', before);
    });

    it('takes over in IPVS mode with the same rights', () => {
      hasRules('ipvs: rules before');
      equals('ipvs: rules', []);
      has('ipvs: state', ...IS_READY);
      judge('ipvs: servers', (lines) =>
        assert.match(lines.join('\n'), /^TCP {2}10\.96\.0\.10:80 rr\n {2}-> 10\.244\.1\.11:8080 +Masq/m),
      );
    });

    it('writes settings of connection tracking', () => {
      // 32768 for each processor, at least 131072; a bucket for four.
      equals('ipvs: table', ['131072', '32768']);
    });

    it('has nothing to complain of', () => {
      judge('journal', (lines) => {
        // Its log, and what it says when it gives up before it has one.
        const own = lines.filter((line) => /^(?:\{|slicewire: )/.test(line));
        assert.ok(own.length > 0);
        for (const line of own) assert.match(line, /^\{"level":"info"/);
      });
    });
  });
});
