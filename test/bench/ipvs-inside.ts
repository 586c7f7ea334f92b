/**
 * IPVS mode, measured where the kernel has IPVS: run in the virtual machine, or natively. Prints one line of JSON for each
 * size, and one of the agent beside kube-proxy. Beside each figure is what an administrator would use for the same state, in the same run.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Lab } from '../../src/cli/lab/lab.ts';
import type { IpvsKernel, KernelWrite } from '../../src/kernel/ipvs-kernel.ts';
import { commandsIn } from '../helpers/kernel/namespace-commands.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER, type Rig } from '../helpers/proxy/rig.ts';
import { kernelIn, rigIn, settledSysctls } from '../vm/ipvs-under-test.ts';
import { type ChangeResult, measureChange } from './change.ts';
import { type ClusterShape, ENDPOINTS, objectsOf } from './cluster.ts';
import { MARK } from './ipvs-mark.ts';
import { measureProxies, type ProxiesResult, type ProxyPlan } from './proxies.ts';

const CHANGES = 20;

const shapeOf = (services: number): ClusterShape => ({ services, endpoints: ENDPOINTS });

/** Milliseconds, but for counts. */
export interface IpvsMeasured {
  readonly services: number;
  /** One cold sync, from the objects to the end: all of it, and of this the servers with their destinations. */
  readonly cold: number;
  readonly servers: number;
  /** The same by `ipvsadm --restore`, `ip -batch` and `ipset restore`. */
  readonly ipvsadm: number;
  readonly ip: number;
  readonly ipset: number;
  readonly change: readonly number[];
  /** Messages of one change, and processes that it started, at most. */
  readonly messages: number;
  readonly processes: number;
  readonly restart: number;
  /** What a restart wrote. */
  readonly rewritten: number;
  /** The agent as a process, with an API server. */
  readonly agent: ChangeResult;
}

/** The kernel, with what is written to it counted and timed. */
class Meter implements IpvsKernel {
  readonly #kernel: IpvsKernel;
  messages = 0;
  serverMilliseconds = 0;

  constructor(kernel: IpvsKernel) {
    this.#kernel = kernel;
  }

  async write(writes: readonly KernelWrite[], signal: AbortSignal) {
    const start = performance.now();
    const outcomes = await this.#kernel.write(writes, signal);
    this.messages += writes.length;
    if (writes[0]?.kind === 'add-server') this.serverMilliseconds += performance.now() - start;
    return outcomes;
  }

  hasDevice = () => this.#kernel.hasDevice();
  addresses = (...args: Parameters<IpvsKernel['addresses']>) => this.#kernel.addresses(...args);
  servers = () => this.#kernel.servers();
  counts = () => this.#kernel.counts();
  destinations = (...args: Parameters<IpvsKernel['destinations']>) => this.#kernel.destinations(...args);
  setNames = () => this.#kernel.setNames();
  readSet = (...args: Parameters<IpvsKernel['readSet']>) => this.#kernel.readSet(...args);
  templates = (...args: Parameters<IpvsKernel['templates']>) => this.#kernel.templates(...args);
  timeouts = () => this.#kernel.timeouts();
  setTimeouts = (...args: Parameters<IpvsKernel['setTimeouts']>) => this.#kernel.setTimeouts(...args);
}

function put(rig: Rig, services: number): Rig {
  for (let n = 0; n < services; n++) rig.put(...objectsOf(shapeOf(services), n));
  return rig;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

async function measure(services: number): Promise<Omit<IpvsMeasured, 'agent'>> {
  const lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-bench-'));
  try {
    const meter = new Meter(await kernelIn(lab, 'node'));
    const sysctls = await settledSysctls(lab);
    let processes = 0;
    const real = commandsIn(lab, 'node');
    const commands = {
      run: (...args: Parameters<typeof real.run>) => {
        processes += 1;
        return real.run(...args);
      },
    };
    const options = { sysctls, families: ['IPv4'] as const, commands };
    const rig = put(rigIn(lab, meter, options), services);
    const well = async (one: Rig) => {
      const report = await one.sync();
      if (report.outcome !== 'complete') throw new Error(JSON.stringify(report.failed.slice(0, 3)));
    };
    const cold = await timed(() => well(rig));
    const tools = await byTools(lab, folder);
    const change: number[] = [];
    const [before, started] = [meter.messages, processes];
    for (let i = 1; i <= CHANGES; i++) {
      rig.put(...objectsOf(shapeOf(services), (i * 37) % services, i));
      change.push(await timed(() => well(rig)));
    }
    const messages = Math.ceil((meter.messages - before) / CHANGES);
    const changeProcesses = processes - started;
    const written = meter.messages;
    // Its endpoints are those of the start: what the changes left is put back first.
    for (let i = 1; i <= CHANGES; i++) rig.put(...objectsOf(shapeOf(services), (i * 37) % services));
    await well(rig);
    const back = meter.messages - written;
    const again = put(rigIn(lab, meter, options), services);
    const restart = await timed(() => well(again));
    const rewritten = meter.messages - written - back;
    const servers = meter.serverMilliseconds;
    return { services, cold, servers, ...tools, change, messages, processes: changeProcesses, restart, rewritten };
  } finally {
    await lab.remove();
    await rm(folder, { recursive: true });
  }
}

/** The state of the node, written into another namespace as an administrator would. */
async function byTools(lab: Lab, folder: string): Promise<{ ipvsadm: number; ip: number; ipset: number }> {
  const restore = async (name: string, text: string, command: string) => {
    const file = join(folder, name);
    await writeFile(file, text);
    return await timed(() => lab.exec('other', 'sh', '-c', `${command} < "$0"`, file));
  };
  const addresses = await lab.exec('node', 'ip', '-o', '-4', 'address', 'show', 'dev', 'kube-ipvs0');
  const batch = [...addresses.matchAll(/inet (\S+)/g)].map(([, address]) => `address add ${address} dev kube-ipvs0`);
  const ipvsadm = await restore('servers', await lab.exec('node', 'ipvsadm', '-Sn'), 'ipvsadm --restore');
  const lines = ['link add kube-ipvs0 type dummy', ...batch, ''].join('\n');
  const ip = await restore('addresses', lines, 'ip -batch -');
  const ipset = await restore('sets', await lab.exec('node', 'ipset', 'save'), 'ipset restore');
  return { ipvsadm, ip, ipset };
}

/** Either proxy as a process. kube-proxy starts a process of `ipset` for each entry, a second each in an emulated machine: a small cluster. */
const beside = { shape: { services: 100, endpoints: ENDPOINTS }, mode: 'ipvs', rest: 0, isWatched: false } as const;
const PLANS: readonly ProxyPlan[] = [
  { ...beside, proxy: 'slicewire', runs: 3, changes: 10, churn: 5, periods: [], restarts: 1 },
  { ...beside, proxy: 'kube-proxy', runs: 1, changes: 3, churn: 5, periods: [], restarts: 1 },
];

/** A line that this prints. */
export type IpvsLine = { readonly parts: IpvsMeasured } | { readonly proxies: ProxiesResult };

function say(line: IpvsLine): void {
  process.stdout.write(`\n${MARK}${JSON.stringify(line)}\n`);
}

for (const size of process.argv.slice(2).map(Number)) {
  const parts = await measure(size);
  const agent = await measureChange({
    shape: { services: size, endpoints: ENDPOINTS },
    changes: CHANGES,
    mode: 'ipvs',
  });
  say({ parts: { ...parts, agent } });
}
say({ proxies: await measureProxies({ kubeProxy: process.env.KUBE_PROXY, plans: PLANS, tooLong: [] }) });
