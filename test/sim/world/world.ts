/** A simulated world: a machine with its kernel and files, an API server, and the agents that run one after another. */
import { relayPort } from '../../../src/agent/relay/node-ports.ts';
import { type Address, endpointText, type Family, familyOf } from '../../../src/base/address.ts';
import { relayAddresses } from '../../../src/config/relay-settings.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import type { ServiceKey } from '../../../src/proxy/model/objects.ts';
import type { ServicePort } from '../../../src/proxy/model/service-port.ts';
import type { Random } from '../../helpers/base/random.ts';
import { SimApi } from '../api/api.ts';
import { liveness, type ServedAnswer } from '../check/liveness.ts';
import { sendersOf } from '../check/packets.ts';
import { type Claim, SafetyCheck, type Writer } from '../check/safety.ts';
import { type FrontendKey, Versions } from '../check/versions.ts';
import { Calls } from '../engine/process.ts';
import { SimTime } from '../engine/time.ts';
import type { Action, Predecessor, Settings, SimMode } from '../history/actions.ts';
import { NODE, NODE_ADDRESSES } from '../history/objects.ts';
import type { HistoryPlan } from '../history/plan.ts';
import { SimKernel } from '../kernel/kernel.ts';
import { Violation } from '../violation.ts';
import { Agents } from './agents.ts';
import { Clients } from './clients.ts';
import {
  CONFIG_FILE,
  configText,
  HEALTH_PORT,
  MANIFESTS,
  METRICS_PORT,
  RECORD_DIR,
  RECORD_SIZE,
} from './config-text.ts';
import { configOf } from './configuration.ts';
import { SimDisk } from './disk.ts';
import { SimFiles } from './files.ts';
import { SimFleet } from './fleet.ts';
import { writeAsOther } from './foreign.ts';
import { SimLoopback } from './loopback.ts';
import { Marks } from './marks.ts';
import { SimNames } from './names.ts';
import { SimPorts } from './ports.ts';
import { leftOf, writeAsPredecessor } from './predecessor.ts';
import { RunningKubeProxy } from './running-kube-proxy.ts';

export interface WorldOptions {
  readonly plan: HistoryPlan;
  readonly random: Random;
  readonly onLine: (line: string) => void;
  readonly onCommit: (what: string) => void;
}

/** Times a tenth of a second that a question to the agent may take. */
const ASKING = 300;
/** Milliseconds after which what kube-proxy left is gone: the agent waits twice as long before each further removal (agent/other-proxies.ts). */
const REMOVAL_MS = 40 * 60_000;
/** A Service that changes when all faults have ended. */
const RECORDED = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { namespace: 'default', name: 'recorded' },
  spec: { clusterIP: '10.96.9.9', clusterIPs: ['10.96.9.9'], ports: [{ port: 80, protocol: 'TCP' }] },
};
/** Milliseconds until a change is in a recording. */
const RECORDING_MS = 10_000;
/** Milliseconds for which a program holds a connection to the relay. */
const HOLDING_MS = 5000;
/** Milliseconds that a sync may take after a period, in which the agent reads what others wrote. Notices come sooner, but not to all tables. */
const NOTICING_MS = 2000;
/** The same from a notice of nftables to the sync that follows it. */
const NOTICE_MS = 20;
/** Of a slice, the name of its Service (discovery.k8s.io/v1, LabelServiceName). */
const SERVICE_LABEL = 'kubernetes.io/service-name';
const KINDS = { services: 'Service', slices: 'EndpointSlice', nodes: 'Node', pods: 'Pod' } as const;
const [IPV4, IPV6] = NODE_ADDRESSES as unknown as readonly [Address, Address];
const SENDERS = sendersOf({ IPv4: IPV4, IPv6: IPV6 });

export class SimWorld {
  readonly time: SimTime;
  readonly calls: Calls;
  readonly kernel: SimKernel;
  readonly api: SimApi;
  readonly files: SimFiles;
  readonly disk = new SimDisk();
  readonly ports = new SimPorts();
  readonly names = new SimNames();
  readonly agents: Agents;
  readonly versions: Versions;
  readonly check: SafetyCheck;
  readonly #options: WorldOptions;
  readonly #clients: Clients;
  readonly #loopback: SimLoopback;
  readonly #marks: Marks;
  readonly #fleet: SimFleet | undefined;
  readonly #violations: Violation[] = [];
  #settings: Settings;
  /** Where the agent chooses its mode: the one that it has, as far as it was asked. */
  #chosen: ModeName = 'nftables';
  #isForeign = false;
  /** kube-proxy, in a history in which it runs beside the agent. */
  #beside: RunningKubeProxy | undefined;
  /** The Node on which nothing answers. */
  #silent: string | undefined;
  /** Until then the agent may not have noticed what others wrote; in time in which it can run. */
  #disturbedUntil = 0;
  /** The same where the reading that follows a notice fails. */
  #unnoticedUntil = 0;

  constructor(options: WorldOptions) {
    const { plan, random, onCommit } = options;
    this.#options = options;
    this.time = new SimTime(random.fork().next);
    this.calls = new Calls(this.time);
    const { variant, longestSent, mostNamed } = plan;
    this.kernel = new SimKernel({ time: this.time, iptables: variant, longestSent, mostNamed });
    this.files = new SimFiles(this.time);
    this.#settings = plan.settings;
    const interfaces = ['127.0.0.1', '::1', ...NODE_ADDRESSES] as Address[];
    const readsApart = plan.source === 'manifests';
    this.versions = new Versions({ config: this.#config(), nodeName: NODE, interfaces, readsApart });
    const latency = random.fork();
    this.api = new SimApi({
      time: this.time,
      latency: () => 1 + latency.below(4),
      stride: 1000,
      streamsLists: options.plan.canStream,
      isHttp1: plan.isHttp1,
      onChange: ({ kind, key, after }) => {
        if (after === undefined) this.versions.remove(kind, key);
        else this.versions.put(after);
      },
    });
    const { kernel, versions, time, calls, api, files, disk, ports, names } = this;
    this.check = new SafetyCheck({ versions, senders: SENDERS });
    const network = {
      isSilent: (address: Address) => this.#silent !== undefined && versions.nodeNameOf(address) === this.#silent,
    };
    this.#loopback = new SimLoopback({ time, ...network });
    this.#clients = new Clients({ kernel, versions, senders: SENDERS, time, network });
    this.#marks = new Marks({ ports, versions, time, onYes: (claims) => this.#claimed(claims) });
    const shared = {
      ...{ plan, time, calls, world: { kernel, api, files, disk, ports, names, network, loopback: this.#loopback } },
      config: () => this.#config(),
      onLine: options.onLine,
      onViolation: (violation: Violation) => void this.#violations.push(violation),
    };
    this.agents = new Agents({ ...shared, node: NODE });
    this.#fleet = plan.hasFleet
      ? new SimFleet({ ...shared, versions, senders: SENDERS, put: (object) => void api.put(object) })
      : undefined;
    this.kernel.onCommit = ({ part, what }) => {
      onCommit(`${part} ${what}`);
      this.#judge();
      this.#fleet?.committed();
    };
    this.files.makeFolder(MANIFESTS);
    this.#writeConfig();
  }

  perform(action: Action): void {
    if (action.kind === 'put') this.#put(action.of, action.object);
    else if (action.kind === 'delete') this.#delete(action.of, action.name);
    else if (action.kind === 'api') this.#disturbApi(action.what);
    else if (action.kind === 'agent') this.agents.disturb(action.what);
    else if (action.kind === 'configure') this.#configure(action);
    else if (action.kind === 'foreign') this.#writeAsOther(action);
    else if (action.kind === 'address') this.#setAddress(action.address as Address, action.isThere);
    else if (action.kind === 'clock') this.time.setWallBy(action.by);
    else if (action.kind === 'silence') this.#setSilent(action.node);
    else if (action.kind === 'freeze') this.time.stall(action.milliseconds);
    else if (action.kind === 'disk') this.disk.isFull = action.isFull;
    else if (action.kind === 'kube-proxy') this.#beside?.end();
    else this.#clients.start(action.variant);
    this.#beside?.stirred();
    // The counters are read beside whatever the agent does.
    const [first] = this.#loopback.listening;
    if (first !== undefined) void this.#loopback.ask(first, HOLDING_MS);
    if (this.#options.plan.measures) void this.ports.ask({ port: METRICS_PORT, path: '/metrics' });
  }

  /** The first objects are there. */
  begin(): void {
    const { predecessor, beside } = this.#options.plan;
    if (predecessor !== undefined) this.#leavePredecessor(predecessor);
    if (beside !== undefined) this.#runBeside(beside);
    this.agents.begin();
    this.#fleet?.begin();
  }

  #leavePredecessor(predecessor: Predecessor): void {
    const served = this.#writeAsPredecessor(predecessor, this.#ports());
    this.check.settled(({ at, owners }) => {
      const port = this.versions.portAt({ at, owners });
      return served.has(at.address ?? '') && (port?.cluster.length ?? 0) > 0 && port?.affinitySeconds === 0;
    });
  }

  #writeAsPredecessor(predecessor: Predecessor, ports: readonly ServicePort[]): ReadonlySet<string> {
    this.#isForeign = true;
    const served = writeAsPredecessor(this.kernel, predecessor, ports);
    this.#isForeign = false;
    return served;
  }

  /** Of the newest objects. */
  #ports(): readonly ServicePort[] {
    const ports = new Map<string, ServicePort>();
    for (const frontend of this.versions.frontends) {
      const port = this.versions.portAt(frontend);
      if (port !== undefined) ports.set(port.key, port);
    }
    return [...ports.values()];
  }

  #runBeside(mode: SimMode): void {
    this.#beside = new RunningKubeProxy({
      ...{ time: this.time, mode, ports: () => this.#ports() },
      write: (own, ports) => void this.#writeAsPredecessor(own, ports),
    });
  }

  /** Nothing is out of order any more. */
  heal(): void {
    this.#silent = undefined;
    this.disk.isFull = false;
    this.#beside?.end();
    this.api.outage(undefined);
    this.api.reset();
    this.agents.revive();
    this.#fleet?.heal();
  }

  /** SIGTERM to all processes. */
  stop(): void {
    this.agents.stop();
    this.#fleet?.stop();
  }

  /** Throws the first Violation. */
  mustHold(): void {
    const [violation] = this.#violations;
    if (violation !== undefined) throw violation;
  }

  /** Everything is as desired, and the agent says so. Throws Violation. */
  async mustBeRight(): Promise<void> {
    if (!this.agents.isRunning) throw new Violation('not running', 'no agent runs after all faults ended');
    if (this.#beside !== undefined) await this.time.runUntil(this.time.now + REMOVAL_MS);
    if (this.#options.plan.choosesMode) await this.#askMode();
    const [left] = leftOf(this.kernel);
    if (left !== undefined) throw new Violation('not right: predecessor', `${left} is left of kube-proxy`);
    const [stale] = this.#clients.stale();
    if (stale !== undefined) throw new Violation('a stale flow stays', `${stale} after all faults ended`);
    const [problem] = await liveness({
      views: (family) => this.kernel.views(family),
      versions: this.versions,
      senders: SENDERS,
      ask: (server, path) => this.#ask(server === 'health' ? HEALTH_PORT : METRICS_PORT, path),
    });
    if (problem !== undefined)
      throw new Violation(`not right: ${topicOf(problem)}`, `${problem}, after all faults ended`);
    if (this.#options.plan.measures) {
      const { status, body } = await this.#ask(METRICS_PORT, '/metrics');
      if (status !== 200 || !body.includes('slicewire_service_series{state="served"}'))
        throw new Violation('not measured', `/metrics answers ${status}, without series of Services`);
    }
    await this.#mustRelay();
    if (this.#options.plan.records) await this.#mustRecord();
    await this.#fleet?.mustBeRight(async (ports, port, path) => await this.#ask(port, path, ports));
    this.check.settled();
  }

  /** Every process ended in order, and left nothing open. Throws Violation. */
  mustBeStopped(): void {
    this.agents.mustBeStopped();
    this.#fleet?.mustBeStopped();
    this.mustHold();
  }

  /** Nothing of it goes on. */
  end(): void {
    this.agents.end();
    this.#fleet?.end();
    this.time.end();
  }

  async #ask(port: number, path: string, ports: SimPorts = this.ports): Promise<ServedAnswer> {
    // An answer may need the kernel, which answers as time passes.
    const asked = ports.ask({ port, path });
    let isAnswered = false;
    const answered = () => {
      isAnswered = true;
    };
    asked.then(answered, answered);
    for (let i = 0; i < ASKING && !isAnswered; i++) await this.time.runUntil(this.time.now + 100);
    if (!isAnswered) return { status: 0, body: `no answer within ${ASKING / 10} s` };
    return (await asked) ?? { status: 0, body: 'nobody listens' };
  }

  /** Node ports on loopback lead to the endpoints that the newest objects name, and there are no others. Throws Violation. */
  async #mustRelay(): Promise<void> {
    const addresses = relayAddresses(this.#config());
    const wanted = new Map<string, readonly string[]>();
    for (const frontend of this.versions.frontends) {
      const port = this.versions.portAt(frontend);
      const relayed = frontend.at.address === undefined && port !== undefined ? relayPort(port) : undefined;
      const address = addresses.find((one) => familyOf(one) === relayed?.family);
      if (relayed === undefined || address === undefined || relayed.endpoints.length === 0) continue;
      wanted.set(
        endpointText(address, relayed.port),
        relayed.endpoints.map(({ text }) => text),
      );
    }
    const others = this.#loopback.listening.filter((at) => !wanted.has(at));
    if (others.length > 0) throw new Violation('not right: relay', `the relay listens on ${others.join(', ')}`);
    for (const [at, endpoints] of wanted) {
      let answer: string | undefined;
      void this.#loopback.ask(at, HOLDING_MS).then((by) => {
        answer = by;
      });
      await this.time.runUntil(this.time.now + 2 * HOLDING_MS);
      if (answer === undefined || !endpoints.includes(answer))
        throw new Violation(
          'not right: relay',
          `${at} is answered by ${answer ?? 'nobody'}, not by ${endpoints.join(', ')}`,
        );
    }
  }

  /** What changes now is in a recording, and all of them take no more than they may. Throws Violation. */
  async #mustRecord(): Promise<void> {
    this.#put('services', RECORDED);
    await this.time.runUntil(this.time.now + RECORDING_MS);
    const recorded = await this.disk.recordedServices(RECORD_DIR);
    const key = `default/${RECORDED.metadata.name}`;
    if (!recorded.has(key))
      throw new Violation('not right: recordings', `they have ${[...recorded].join(', ') || 'nothing'}, not ${key}`);
    if (this.disk.size > RECORD_SIZE)
      throw new Violation('not right: recordings', `they take ${this.disk.size} bytes instead of ${RECORD_SIZE}`);
  }

  async #askMode(): Promise<void> {
    const { status, body } = await this.#ask(HEALTH_PORT, '/programmed');
    if (status !== 200) throw new Violation('not right: /programmed', `/programmed answers ${status}: ${body}`);
    this.#chosen = (JSON.parse(body) as { readonly by: { readonly mode: ModeName } }).by.mode;
    this.versions.configure(this.#config());
  }

  #config() {
    const { plan } = this.#options;
    return configOf(configText(this.#settings, plan), plan, plan.choosesMode ? this.#chosen : this.#settings.mode);
  }

  #writeConfig(): void {
    this.files.replace(CONFIG_FILE, configText(this.#settings, this.#options.plan));
    this.versions.configure(this.#config());
  }

  #put(of: keyof typeof KINDS, object: object): void {
    if (this.#options.plan.source !== 'manifests') {
      const before = this.versions.changes;
      const version = this.api.put(object);
      this.#fleet?.written(object);
      // A version that changes nothing is in the kernel as soon as it is received.
      if (this.#options.plan.asksMarks && this.versions.changes !== before) this.#askFor(of, object, version);
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
      this.#fleet?.changed();
      return;
    }
    this.files.remove(fileOf(of, name));
    this.versions.remove(KINDS[of], key);
  }

  #disturbApi(what: Extract<Action, { kind: 'api' }>['what']): void {
    const { api } = this;
    const whom = this.#options.plan.isHttp1 ? 'some' : 'all';
    if (what === 'go-silent') {
      api.goSilent('dead', whom);
      this.#fleet?.silenced();
    } else if (what === 'reset') api.reset(whom);
    else if (what === 'go-down') api.outage('refused');
    else if (what === 'come-up') api.outage(undefined);
    else if (what === 'compact') api.compact();
    else if (what === 'expire') api.tear();
    else {
      this.#marks.restored();
      api.goBack(3);
    }
  }

  #askFor(of: keyof typeof KINDS, object: object, version: number): void {
    if (of !== 'services' && of !== 'slices') return;
    const { metadata, addressType: family } = object as ServiceOrSlice;
    const { name, labels } = metadata;
    const service = of === 'services' ? name : labels?.[SERVICE_LABEL];
    if (service === undefined) return;
    const written = { key: `default/${name}`, service: `default/${service}` as ServiceKey, version, family } as const;
    this.#marks.written({ of: of === 'services' ? 'service' : 'slice', ...written });
  }

  #claimed(claims: ReadonlyMap<FrontendKey, Claim>): void {
    if (
      this.#beside !== undefined ||
      !this.agents.isAlone ||
      this.agents.isCleaning ||
      this.time.running < this.#unnoticedUntil
    )
      return;
    const views = (family: Family) => this.kernel.views(family);
    for (const { kind, text } of this.check.claimed(claims, { views, at: this.time.now }))
      this.#violations.push(new Violation(kind, text));
  }

  #configure({ settings, isSignalled }: Extract<Action, { kind: 'configure' }>): void {
    this.#settings = { ...this.#settings, ...settings };
    this.#writeConfig();
    // What `run --once` of the former mode writes now, the agent removes as the rules of another proxy: late.
    if (settings.mode !== undefined && !this.agents.isAlone)
      this.#unnoticedUntil = Math.max(this.#unnoticedUntil, this.time.running + REMOVAL_MS);
    if (isSignalled) this.agents.hangUp();
  }

  #writeAsOther({ what, variant }: Extract<Action, { kind: 'foreign' }>): void {
    this.#isForeign = true;
    writeAsOther(this.kernel, what, variant);
    this.#isForeign = false;
    if (what === 'own-rule' || what === 'hold-lock') return;
    // The kernel's notice comes at once in nftables mode: only a sync that runs already may lead packets to what was flushed.
    const isNoticed = this.#settings.mode === 'nftables' && !this.#options.plan.choosesMode;
    const noticing = isNoticed ? NOTICE_MS : this.#settings.syncPeriod + NOTICING_MS;
    this.#disturbedUntil = Math.max(this.#disturbedUntil, this.time.running + noticing);
    const unnoticed = this.#settings.syncPeriod + NOTICING_MS;
    this.#unnoticedUntil = Math.max(this.#unnoticedUntil, this.time.running + unnoticed);
  }

  #setSilent(node: string | undefined): void {
    this.#silent = node;
    this.check.leavesOut();
  }

  #setAddress(address: Address, isThere: boolean): void {
    const { machine } = this.kernel;
    if (isThere) machine.addresses.add(address);
    else machine.addresses.delete(address);
    this.versions.setInterfaces([...machine.addresses]);
  }

  #judge(): void {
    const text = this.kernel.bytesOfOthers();
    const { isCleaning, isAlone } = this.agents;
    // kube-proxy beside leads packets by what it knows; the agent removes that only some time after it ended.
    const writer = (isOthers: boolean): Writer =>
      isOthers ? 'others' : isCleaning ? 'cleanup' : isAlone ? 'agent' : 'agents';
    const by = writer(this.#isForeign || this.#beside !== undefined);
    const others = { text, by: writer(this.#isForeign) };
    const isDisturbed = this.time.running < this.#disturbedUntil;
    const commit = { views: (family: Family) => this.kernel.views(family), by, isDisturbed, at: this.time.now, others };
    for (const { kind, text } of this.check.committed(commit)) {
      this.#violations.push(new Violation(kind, text));
    }
  }
}

function fileOf(of: string, name: string): string {
  return `${MANIFESTS}/${of}-${name}.json`;
}

/** What is not right, so that a history is not made shorter until something else is not right: `verify`, `/healthz`, or packets. */
function topicOf(problem: string): string {
  return /^(?:verify|\/\w+)/.exec(problem)?.[0] ?? 'packets';
}

/** A Service or a slice, of which only the slice has a family. */
interface ServiceOrSlice {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly addressType?: Family;
}
