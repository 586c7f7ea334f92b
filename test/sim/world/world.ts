/** A simulated world: a machine with its kernel and files, an API server, and the agents that run one after another. */
import { removeAll } from '../../../src/agent/remove-all.ts';
import type { Address } from '../../../src/model/address.ts';
import { SimApi } from '../api/api.ts';
import { sendersOf } from '../check/packets.ts';
import { SafetyCheck } from '../check/safety.ts';
import { Versions } from '../check/versions.ts';
import { Calls, SimProcess } from '../engine/process.ts';
import type { Random } from '../engine/random.ts';
import { SimTime } from '../engine/time.ts';
import type { Action, Settings } from '../history/actions.ts';
import { NODE, NODE_ADDRESSES } from '../history/objects.ts';
import type { HistoryPlan } from '../history/plan.ts';
import { SimKernel } from '../kernel/kernel.ts';
import { Violation } from '../violation.ts';
import { type AgentRun, startAgent } from './agent-run.ts';
import { CONFIG_FILE, configText, flagsOf, HEALTH_PORT, MANIFESTS } from './config-text.ts';
import { configOf } from './configuration.ts';
import { startController } from './controller-run.ts';
import { SimFiles } from './files.ts';
import { writeAsOther } from './foreign.ts';
import { simOutside } from './outside.ts';
import { SimPorts } from './ports.ts';

export interface WorldOptions {
  readonly plan: HistoryPlan;
  readonly random: Random;
  readonly onLine: (line: string) => void;
  readonly onCommit: (what: string) => void;
}

/** Milliseconds until the supervisor starts an agent again (RestartSec of systemd/slicewire.service). */
const RESTART = 1000;
const REPLICAS = 2;
const KINDS = { services: 'Service', slices: 'EndpointSlice', nodes: 'Node', pods: 'Pod' } as const;

export class SimWorld {
  readonly time: SimTime;
  readonly calls: Calls;
  readonly kernel: SimKernel;
  readonly api: SimApi;
  readonly files: SimFiles;
  readonly ports = new SimPorts();
  readonly versions: Versions;
  readonly check: SafetyCheck;
  readonly #options: WorldOptions;
  #settings: Settings;
  #agent: AgentRun | undefined;
  #others: AgentRun[] = [];
  #violations: Violation[] = [];
  #isForeign = false;
  /** Rules go because the operator wants it. */
  #isCleaning = false;
  #bytesOfOthers = '';
  #isOver = false;
  #starts = 0;

  constructor(options: WorldOptions) {
    const { plan, random, onCommit } = options;
    this.#options = options;
    this.time = new SimTime(random.fork().next);
    this.calls = new Calls(this.time);
    this.kernel = new SimKernel({ time: this.time, iptables: plan.variant });
    this.files = new SimFiles(this.time);
    this.#settings = plan.settings;
    const interfaces = ['127.0.0.1', '::1', ...NODE_ADDRESSES] as Address[];
    this.versions = new Versions({ config: this.#config(), nodeName: NODE, interfaces });
    const latency = random.fork();
    this.api = new SimApi({
      time: this.time,
      latency: () => 1 + latency.below(4),
      onChange: ({ kind, key, after }) => {
        if (after === undefined) this.versions.remove(kind, key);
        else this.versions.put(after);
      },
    });
    const [ipv4, ipv6] = NODE_ADDRESSES as unknown as readonly [Address, Address];
    this.check = new SafetyCheck({ versions: this.versions, senders: sendersOf({ IPv4: ipv4, IPv6: ipv6 }) });
    this.kernel.onCommit = ({ part, what }) => {
      onCommit(`${part} ${what}`);
      this.#judge();
    };
    this.files.makeFolder(MANIFESTS);
    this.#writeConfig();
  }

  /** How often agents were started. */
  get starts(): number {
    return this.#starts;
  }

  /** The first agent starts, and the controllers. */
  begin(): void {
    this.#startAgent();
    if (this.#options.plan.source !== 'controller') return;
    for (let replica = 1; replica <= REPLICAS; replica++) this.#startController(replica);
  }

  perform(action: Action): void {
    switch (action.kind) {
      case 'put':
        return this.#put(action.of, action.object);
      case 'delete':
        return this.#delete(action.of, action.name);
      case 'api':
        return this.#disturbApi(action.what);
      case 'agent':
        return this.#disturbAgent(action.what);
      case 'configure':
        this.#settings = { ...this.#settings, ...action.settings };
        this.#writeConfig();
        if (action.isSignalled) this.#agent?.hangUp();
        return;
      case 'foreign':
        this.#isForeign = true;
        writeAsOther(this.kernel, action.what, action.variant);
        this.#isForeign = false;
        return;
      case 'address':
        return this.#setAddress(action.address as Address, action.isThere);
      case 'clock':
        return this.time.setWallBy(action.by);
      case 'flows':
        return;
    }
  }

  /** Nothing is out of order any more. */
  heal(): void {
    this.api.outage(undefined);
    this.api.resetAll();
    if (this.#agent === undefined || this.#agent.process.isDead) this.#startAgent();
  }

  /** Throws the first Violation since the last call. */
  mustHold(): void {
    const [violation] = this.#violations;
    if (violation !== undefined) throw violation;
  }

  /** Everything is as desired, and the agent says so. Throws Violation. */
  async mustBeRight(): Promise<void> {
    const agent = this.#agent;
    if (agent === undefined || agent.process.isDead || agent.end() !== undefined)
      throw new Violation('not running', 'no agent runs after all faults ended');
    for (const path of ['/livez', '/readyz', '/healthz']) {
      const answer = await this.ports.ask({ port: HEALTH_PORT, path });
      if (answer?.status !== 200)
        throw new Violation('unhealthy', `${path} answers ${answer?.status}: ${answer?.body} after all faults ended`);
    }
  }

  stop(): void {
    this.#isOver = true;
    this.#agent?.stop();
    for (const other of this.#others) other.stop();
  }

  /** Every process ended in order, and left nothing open. Throws Violation. */
  mustBeStopped(): void {
    for (const run of [this.#agent, ...this.#others]) {
      if (run === undefined || run.process.isDead) continue;
      const { name } = run.process;
      if (run.end() === undefined) throw new Violation('does not stop', `${name} did not end after SIGTERM`);
      this.#mustHaveClosed(run.process, this.time.timersOf(run.process));
    }
    this.mustHold();
  }

  /** Nothing of it goes on. */
  end(): void {
    this.#isOver = true;
    this.#agent?.process.kill();
    for (const { process } of this.#others) process.kill();
    this.time.end();
  }

  #config() {
    const { plan } = this.#options;
    return configOf(configText(this.#settings, plan.readsProtobuf), plan);
  }

  #writeConfig(): void {
    this.files.replace(CONFIG_FILE, configText(this.#settings, this.#options.plan.readsProtobuf));
    this.versions.configure(this.#config());
  }

  #put(of: keyof typeof KINDS, object: object): void {
    if (this.#options.plan.source !== 'manifests') {
      this.api.put(object);
      return;
    }
    const { name } = (object as { readonly metadata: { readonly name: string } }).metadata;
    this.files.replace(fileOf(of, name), JSON.stringify(object));
    this.versions.put(object);
  }

  #delete(of: keyof typeof KINDS, name: string): void {
    const key = of === 'nodes' ? name : `default/${name}`;
    if (this.#options.plan.source !== 'manifests') {
      this.api.delete(KINDS[of], key);
      return;
    }
    this.files.remove(fileOf(of, name));
    this.versions.remove(KINDS[of], key);
  }

  #disturbApi(what: Extract<Action, { kind: 'api' }>['what']): void {
    const { api } = this;
    if (what === 'go-silent') api.goSilent();
    else if (what === 'reset') api.resetAll();
    else if (what === 'go-down') api.outage('refused');
    else if (what === 'come-up') api.outage(undefined);
    else if (what === 'compact') api.compact();
    else if (what === 'expire') api.tear();
    else api.restoreTo(Math.max(api.oldest, api.resourceVersion - 5));
  }

  #disturbAgent(what: Extract<Action, { kind: 'agent' }>['what']): void {
    if (what === 'hang-up') this.#agent?.hangUp();
    else if (what === 'kill') this.#agent?.process.kill();
    else if (what === 'restart') this.#agent?.stop();
    else if (what === 'once') this.#startOther(true);
    else if (what === 'second') this.#startOther(false);
    else this.#cleanUp();
  }

  #startAgent(): void {
    if (this.#isOver) return;
    this.#starts += 1;
    const process = this.#process(`agent ${this.#starts}`);
    const again = () => {
      if (this.#agent?.process === process) this.time.after(RESTART, () => this.#startAgent(), NOBODY);
    };
    process.onDeath(again);
    this.#agent = startAgent({
      ...this.#input(process),
      onEnd: (error) => {
        if (error !== undefined) this.#say(process, `ended: ${String(error)}`);
        // What it left open is open for a moment only.
        if (!this.#isOver) this.time.after(1, () => this.#ended(process, error), NOBODY);
      },
    });
  }

  #ended(process: SimProcess, error: unknown): void {
    if (error === undefined) this.#mustHaveClosed(process);
    process.kill();
  }

  #mustHaveClosed({ name, open }: SimProcess, timers = 0): void {
    if (open.length > 0)
      this.#violations.push(new Violation('leaks', `${name} ended and left open: ${open.join(', ')}`));
    if (timers > 0) this.#violations.push(new Violation('leaks', `${name} ended and left ${timers} timers`));
  }

  #startOther(isOnce: boolean): void {
    const process = this.#process(isOnce ? 'once' : 'second');
    const run = startAgent({ ...this.#input(process), isOnce, onEnd: () => process.kill() });
    this.#others.push(run);
    // An operator notices the mistake.
    if (!isOnce) this.time.after(5000, () => run.stop(), NOBODY);
  }

  #startController(replica: number): void {
    if (this.#isOver) return;
    const process = this.#process(`controller ${replica}`);
    process.onDeath(() => this.time.after(RESTART, () => this.#startController(replica), NOBODY));
    const input = { ...this.#input(process), onEnd: () => (this.#isOver ? undefined : process.kill()) };
    this.#others = [...this.#others.filter((run) => !run.process.isDead), startController(input, replica)];
  }

  /** The operator stops the agent, removes all rules, and starts it again. */
  #cleanUp(): void {
    const former = this.#agent;
    if (former === undefined || former.process.isDead) return;
    former.process.onDeath(() => {
      const process = this.#process('cleanup');
      const { outside } = this.#input(process);
      this.#isCleaning = true;
      process.onDeath(() => {
        this.#isCleaning = false;
        this.time.after(RESTART, () => this.#startAgent(), NOBODY);
      });
      const done = () => process.kill();
      void process.run(() => removeAll(this.#config(), new AbortController().signal, outside)).then(done, done);
    });
    former.stop();
  }

  #process(name: string): SimProcess {
    return new SimProcess(name, this.kernel.nextPid(), this.calls);
  }

  #input(process: SimProcess) {
    const { kernel, api, files, ports } = this;
    return {
      process,
      outside: simOutside(process, { kernel, api, files, ports }),
      flags: flagsOf(this.#options.plan),
      onLine: (line: string) => this.#say(process, line),
    };
  }

  #say({ name }: SimProcess, line: string): void {
    this.#options.onLine(`${(this.time.now / 1000).toFixed(3)} ${name}: ${line}`);
  }

  #setAddress(address: Address, isThere: boolean): void {
    const { machine } = this.kernel;
    if (isThere) machine.addresses.add(address);
    else machine.addresses.delete(address);
    this.versions.setInterfaces([...machine.addresses]);
  }

  #judge(): void {
    const others = this.kernel.bytesOfOthers();
    const by = this.#isForeign || this.#isCleaning ? 'others' : 'agent';
    if (this.#isCleaning && !this.#isForeign && others !== this.#bytesOfOthers)
      this.#violations.push(new Violation('others', 'cleanup changed what belongs to others'));
    this.#bytesOfOthers = others;
    for (const { kind, text } of this.check.committed({ views: (family) => this.kernel.views(family), by, others })) {
      this.#violations.push(new Violation(kind, text));
    }
  }
}

const NOBODY = { isDead: false };

function fileOf(of: string, name: string): string {
  return `${MANIFESTS}/${of}-${name}.json`;
}
