/** An agent in IPVS mode that changes all that it serves again and again, until it is killed (killed.vm.ts). Runs in the node's namespace. */
import { spawnSync } from 'node:child_process';
import { flushCompileCache } from 'node:module';
import type { CommandRunner } from '../../src/kernel/commands.ts';
import { IptablesTools } from '../../src/kernel/iptables-tools.ts';
import { ipvsQuestions, openIpvsKernel } from '../../src/kernel/ipvs-open.ts';
import { servicePorts } from '../../src/proxy/model/service-port.ts';
import { ipvsMode } from '../../src/proxy/modes/ipvs/index.ts';
import { DEFAULT_NODE_SETTINGS, defaultIpvsSettings } from '../helpers/proxy/ipvs-settings.ts';
import { generation } from './generations.ts';

/** With nothing of what a process needs to start quickly. */
const commands: CommandRunner = {
  run({ file, args, input }) {
    const text = input === undefined ? {} : { input: `${[...input()].join('\n')}\n` };
    const { status, stdout, stderr } = spawnSync(file, args, { encoding: 'utf8', ...text });
    return Promise.resolve({ exitCode: status ?? undefined, stdout, stderr });
  },
};

const signal = new AbortController().signal;
const mode = ipvsMode({
  families: [
    {
      settings: defaultIpvsSettings('IPv4'),
      tools: new IptablesTools(commands, 'IPv4', 'auto'),
    },
  ],
  node: DEFAULT_NODE_SETTINGS,
  kernel: await openIpvsKernel(commands, signal),
  questions: ipvsQuestions(() => openIpvsKernel(commands, signal)),
  sysctls: { read: () => Promise.resolve(undefined), write: () => Promise.resolve() },
  wantedSettings: new Map(),
});

const location = { nodeName: 'node', zone: '' };
let last = new Map<string, undefined>();
for (let n = Number(process.argv[2]); ; n++) {
  const ports = generation(n).flatMap(({ service, slices }) => servicePorts(service, slices, location));
  mode.desire(new Map([...last, ...ports.map((port) => [port.key, port] as const)]), new Map());
  last = new Map(ports.map((port) => [port.key, undefined]));
  if (!mode.isObserved) await mode.observe(signal);
  if (n === Number(process.argv[2])) {
    // Who is killed cannot do it at its end. It spares the next one the stripping of types, and so a fault of V8: its
    // WebAssembly gives up now and then on emulated processors («Check failed: it->second.Size() > offset»).
    flushCompileCache();
    // From here on it may be killed at any time.
    process.stdout.write('begins\n');
  }
  const report = await mode.plan().apply(signal);
  if (report.outcome !== 'complete') process.stdout.write(`${JSON.stringify(report.failed)}\n`);
}
