/** The one executable (`npm run build`): the same bytes wherever it is built, of the Node.js that is pinned, and with no door that root must not have. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { bundleExecutable } from '../../scripts/bundle.ts';
import { assemble, compile } from '../../scripts/executable/make.ts';
import { sha256 } from '../../scripts/runtime.ts';
import { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { Lab } from '../../src/cli/lab/lab.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { REMOVED_VARIABLES } from '../../src/kernel/environment.ts';
import { AgentCluster } from '../helpers/cli/kubectl/agent-cluster.ts';
import { connectProxy } from '../helpers/cluster/api/connect-proxy.ts';
import { statusAnswer } from '../helpers/inspect/wire/answers.ts';
import { listeningPorts } from '../helpers/kernel/listening.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Milliseconds: the machine may have more to do. */
const PATIENCE = { within: 60_000 };
const DEBUGGER = 9229;
/** The smallest module with a function. */
const ATTEMPT = `
const bytes = [0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 4, 1, 2, 0, 11];
try {
  new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array(bytes)));
  console.log('compiled');
} catch (error) {
  console.log(String(error));
}`;
/** What no executable is made of, and is large. */
const IDLE =
  /^node_modules\/(?:\.cache|typescript|@typescript|@biomejs|kubernetes-models|@kubernetes-models|node-linux-)|\.(?:d\.[cm]?ts|map|md)$/;

/**
 * What `node --help` names beside the variables that are removed, and stays: what operators want, or what can do no harm.
 * docs/configure.md says the same.
 */
const OPEN = [
  ...['FORCE_COLOR', 'NO_COLOR', 'NODE_DISABLE_COLORS', 'TZ', 'UV_THREADPOOL_SIZE', 'NODE_EXTRA_CA_CERTS'],
  ...['NODE_NO_WARNINGS', 'NODE_PENDING_DEPRECATION', 'NODE_PRESERVE_SYMLINKS', 'NODE_SKIP_PLATFORM_CHECK'],
  // For Windows; for the interactive Node.js, which is not in it: the first of these ends it with an error at the start.
  ...['NODE_PENDING_PIPE_INSTANCES', 'NODE_REPL_EXTERNAL_MODULE', 'NODE_REPL_HISTORY'],
];

const run = (file: string, ...args: string[]) => realCommands.run({ file, args }, NEVER);

/** For env(1): no variable of the tests' own surroundings, and these. */
const only = (...variables: readonly string[]) => [
  ...[...REMOVED_VARIABLES.keys()].flatMap((name) => ['-u', name]),
  ...variables,
];

/** A command that asks the agent in the lab. */
function asked(lab: Lab, path: string): [string, ...string[]] {
  const { file, args } = lab.inside('node', 'curl', ['-sf', `http://127.0.0.1:10249${path}`]);
  return [file, ...args];
}

describe('the executable', () => {
  let folder: string;
  let executable: string;
  let said: string;
  /** A program that ran from the executable's path before the build. */
  let former: ChildProcess;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'slicewire-executable-'));
    executable = join(folder, 'slicewire');
    copyFileSync('/bin/sleep', executable);
    former = spawn(executable, ['1000'], { stdio: 'ignore' });
    const built = await run(process.execPath, join(ROOT, 'scripts/build.ts'), '--output', executable);
    assert.equal(built.exitCode, 0, built.stderr);
    said = built.stdout;
  });
  after(() => {
    former.kill('SIGKILL');
    rmSync(folder, { recursive: true });
  });

  it('replaces the executable that runs, which goes on, and leaves nothing beside it', () => {
    assert.deepEqual([former.exitCode, former.signalCode], [null, null]);
    assert.equal(readlinkSync(`/proc/${former.pid}/exe`), `${executable} (deleted)`);
    assert.deepEqual(readdirSync(folder), ['slicewire', 'slicewire-drained']);
  });

  it('is built with a word on the hashes of Node.js and of itself', async () => {
    assert.match(
      said,
      new RegExp(`^Node.js ${process.versions.node} for .*: SHA-256 ${await sha256(process.execPath)}, `),
    );
    assert.match(said, new RegExp(`^built: .* SHA-256 ${await sha256(executable)}$`, 'm'));
  });

  it('is the same from a copy of the sources in another folder, at another time, by other surroundings', async () => {
    const copy = join(folder, 'some/where/else');
    cpSync(ROOT, copy, {
      recursive: true,
      verbatimSymlinks: true,
      filter: (source) => !/^(?:\.git|dist)$/.test(relative(ROOT, source)) && !IDLE.test(relative(ROOT, source)),
    });
    const [home, second] = [join(folder, 'home'), join(folder, 'second/name')];
    mkdirSync(home);
    const variables = [
      `HOME=${home}`,
      `TMPDIR=${home}`,
      'LANG=de_DE.UTF-8',
      'TZ=Asia/Tokyo',
      'NODE_OPTIONS=--no-warnings',
    ];
    const command = [process.execPath, join(copy, 'scripts/build.ts'), '--output', second];
    const { exitCode, stderr } = await run('env', '-C', folder, ...variables, ...command);
    assert.equal(exitCode, 0, stderr);
    assert.equal(await sha256(second), await sha256(executable));
  });

  it('has the same compiled code from a machine that is very busy', async () => {
    const [bundled, slow] = [
      join(folder, 'bundled'),
      fileURLToPath(new URL('../helpers/cli/slowed.ts', import.meta.url)),
    ];
    mkdirSync(bundled);
    await bundleExecutable(bundled);
    const hashes: string[] = [];
    const compiled = async (emulator: readonly string[]) => {
      const code = await compile({ node: process.execPath, emulator }, bundled);
      hashes.push(createHash('sha256').update(code).digest('hex'));
    };
    await compiled([]);
    const busy = [1, 2, 3].map(() => spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }));
    try {
      await compiled([]);
      await compiled([process.execPath, slow]);
    } finally {
      for (const one of busy) one.kill('SIGKILL');
    }
    assert.equal(new Set(hashes).size, 1, hashes.join('\n'));
    assert.ok(readFileSync(executable).includes(await compile({ node: process.execPath, emulator: [] }, bundled)));
  });

  it('compiles no WebAssembly at its start', async () => {
    // An executable with the same options, whose program tries to.
    const [probe, output] = [join(folder, 'probe'), join(folder, 'probe/executable')];
    mkdirSync(probe);
    writeFileSync(join(probe, 'boot.js'), ATTEMPT);
    const node = await run(process.execPath, join(probe, 'boot.js'));
    assert.equal(node.stdout, 'compiled\n', 'the attempt is a valid one');
    await assemble({ node: process.execPath, output }, probe, []);
    const { exitCode, stdout } = await run('env', ...only(), output);
    assert.equal(exitCode, 0);
    assert.match(stdout, /^CompileError: WebAssembly\.Module\(\): .* exceeds maximum size/);
  });

  it('has its code compiled: the cache in it is of use', async () => {
    // The first code of the executable warns when it is not (scripts/executable/boot.ts).
    const { exitCode, stdout, stderr } = await run('env', ...only(), executable, 'version');
    assert.deepEqual([exitCode, stderr], [0, '']);
    assert.match(stdout, /^slicewire \d/);
  });

  it('is the plugin of kubectl under its name, also after a restart without variables of Node.js', async () => {
    const plugin = join(folder, 'kubectl-slicewire');
    symlinkSync(executable, plugin);
    const cluster = await AgentCluster.start({ tls: true, token: 'secret' });
    try {
      await cluster.addAgent('node-1', { '/status': () => statusAnswer('node-1') });
      const kubeconfig = await cluster.server.kubeconfig();
      for (const variables of [[], ['NODE_DEBUG=http']]) {
        const command = [plugin, 'status', '--kubeconfig', kubeconfig];
        const { exitCode, stdout, stderr } = await run('env', ...only(...variables), ...command);
        assert.match(stdout, /^1 of 1 nodes is healthy\.\n/, stderr);
        assert.equal(exitCode, 0);
      }
    } finally {
      await cluster.stop();
    }
  });

  it('reads kubeconfigs that need client-node: a program for the credentials, and a proxy', async () => {
    const cluster = await AgentCluster.start({ tls: true, token: 'secret' });
    const proxy = await connectProxy();
    try {
      await cluster.addAgent('node-1', { '/status': () => statusAnswer('node-1') });
      const kubeconfig = await cluster.server.kubeconfig();
      const config = JSON.parse(readFileSync(kubeconfig, 'utf8')) as {
        readonly clusters: readonly [{ readonly cluster: object }];
      };
      const [{ cluster: way }] = config.clusters;
      const apiVersion = 'client.authentication.k8s.io/v1';
      const credential = JSON.stringify({ apiVersion, kind: 'ExecCredential', status: { token: 'secret' } });
      const exec = { apiVersion, interactiveMode: 'Never', command: 'echo', args: [credential] };
      const clusters = [{ name: 'test', cluster: { ...way, 'proxy-url': proxy.url } }];
      writeFileSync(kubeconfig, JSON.stringify({ ...config, clusters, users: [{ name: 'test', user: { exec } }] }));
      const command = [executable, 'kubectl', 'status', '--kubeconfig', kubeconfig];
      const { stdout, stderr } = await run('env', ...only(), ...command);
      assert.match(stdout, /^1 of 1 nodes is healthy\.\n/, stderr);
      assert.ok(proxy.targets.length > 0, 'the proxy was asked');
    } finally {
      proxy.stop();
      await cluster.stop();
    }
  });

  describe('in surroundings that want something of Node.js', () => {
    /** Writes a file when it is loaded. */
    let injected: string;
    let traces: string;
    before(() => {
      traces = join(folder, 'traces');
      mkdirSync(traces);
      injected = join(folder, 'injected.cjs');
      writeFileSync(injected, `require('node:fs').writeFileSync(${JSON.stringify(join(traces, 'injected'))}, '')`);
    });
    const within = (variables: readonly string[], ...args: string[]) =>
      run('env', ...only(...variables), executable, ...args);

    const CASES: readonly { readonly name: string; readonly value: () => string }[] = [
      { name: 'NODE_COMPILE_CACHE', value: () => join(traces, 'compiled') },
      { name: 'NODE_DEBUG', value: () => '*' },
      { name: 'NODE_DEBUG_NATIVE', value: () => 'SEA' },
      { name: 'NODE_PATH', value: () => folder },
      { name: 'NODE_REDIRECT_WARNINGS', value: () => join(traces, 'warnings') },
      { name: 'NODE_TLS_REJECT_UNAUTHORIZED', value: () => '0' },
      { name: 'NODE_V8_COVERAGE', value: () => join(traces, 'coverage') },
      { name: 'SSLKEYLOGFILE', value: () => join(traces, 'keys') },
      { name: 'NODE_OPTIONS', value: () => `--require=${injected} --title=changed` },
      { name: 'OPENSSL_CONF', value: () => join(folder, 'openssl.cnf') },
    ];
    for (const { name, value } of CASES) {
      it(`ignores ${name}, and says so`, async () => {
        const { exitCode, stdout, stderr } = await within([`${name}=${value()}`], 'version');
        assert.equal(exitCode, 0, stderr);
        assert.match(stdout, /^slicewire \d\S* \(Node\.js [\d.]+\)\n$/);
        const told = stderr.split('\n').filter((line) => line.startsWith('slicewire: '));
        assert.deepEqual(told, [
          `slicewire: ${name} is ignored (it ${REMOVED_VARIABLES.get(name)}): restarting without it`,
        ]);
        // NODE_COMPILE_CACHE makes its folder at once, and nothing comes into it.
        const left = readdirSync(traces, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
        assert.deepEqual(left, []);
      });
    }

    it('does not read the file of OPENSSL_CONF even at first', async () => {
      const file = join(folder, 'openssl.cnf');
      writeFileSync(file, 'nodejs_conf = broken\n[broken]\nproviders = none\n');
      const node = await run('env', ...only(`OPENSSL_CONF=${file}`), process.execPath, '--eval', '');
      assert.match(node.stderr, /OpenSSL configuration error/, 'Node.js reads it, and ends');
      const { exitCode, stderr } = await within([`OPENSSL_CONF=${file}`], 'version');
      assert.equal(exitCode, 0, stderr);
      assert.doesNotMatch(stderr, /OpenSSL/);
    });

    it('has decided about every variable that `node --help` names', async () => {
      const { stdout } = await run(process.execPath, '--help');
      const listed = stdout.slice(stdout.indexOf('Environment variables:'));
      const names = [...listed.matchAll(/^([A-Z][A-Z0-9_]+)(?: |$)/gm)].map(([, name = '']) => name);
      assert.ok(names.length > 15, listed);
      assert.deepEqual(
        names.filter((name) => !REMOVED_VARIABLES.has(name) && !OPEN.includes(name)),
        [],
      );
    });

    it('takes no option of Node.js from its command line', async () => {
      const { exitCode, stderr } = await run('env', ...only(), executable, '--inspect=127.0.0.1:0', 'version');
      assert.equal(exitCode, 1);
      assert.match(stderr, /unknown option '--inspect/);
    });
  });

  it('as an agent has the live page in it, goes on after SIGUSR1, listens for no debugger, and has none of the variables', async () => {
    const lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
    const manifests = join(folder, 'manifests');
    mkdirSync(manifests);
    const own = ['--manifests', manifests, '--hostname-override', 'node', '--conntrack-max-per-core', '0'];
    const variables = [...REMOVED_VARIABLES.keys()]
      .filter((name) => name !== 'NODE_ICU_DATA')
      .map((name) => `${name}=${folder}/none`);
    const agent = new AgentProcess(lab, [...variables, executable, 'run', ...own], 'env');
    try {
      await agent.logged(({ msg }) => msg.startsWith('synced'), PATIENCE);
      const environment = readFileSync(`/proc/${agent.pid}/environ`, 'utf8').split('\0');
      assert.ok(environment.some((variable) => variable.startsWith('PATH=')));
      assert.deepEqual(
        environment.filter((variable) => REMOVED_VARIABLES.has(variable.split('=')[0] ?? '')),
        [],
      );
      const { stdout: page } = await run(...asked(lab, '/'));
      assert.match(page, /<script type="module" src="\/page\/page\.js">/);
      const { stdout: script } = await run(...asked(lab, '/page/page.js'));
      assert.ok(script.length > 50_000, `the page's program has ${script.length} bytes`);
      const { pid } = agent;
      assert.ok(pid !== undefined);
      process.kill(pid, 'SIGUSR1');
      await pause(1000);
      const since = agent.log.length;
      process.kill(pid, 'SIGHUP');
      await agent.logged(({ msg }) => msg.startsWith('SIGHUP: '), { since, ...PATIENCE });
      const ports = listeningPorts(agent.pid);
      assert.ok(ports.includes(10_256) && !ports.includes(DEBUGGER), ports.join());
    } finally {
      await agent.stop();
      await lab.remove();
    }
  });
});
