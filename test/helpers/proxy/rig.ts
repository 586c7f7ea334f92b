/** The stages of the agent over seams that a test chooses: objects in, kernel state out. */
import assert from 'node:assert/strict';
import { FAMILIES } from '../../../src/base/address.ts';
import { realClock } from '../../../src/base/clock.ts';
import { objectKey } from '../../../src/cluster/api/decode/checks.ts';
import { decodeNode } from '../../../src/cluster/api/decode/node.ts';
import { decodeService } from '../../../src/cluster/api/decode/service.ts';
import { decodeSlice } from '../../../src/cluster/api/decode/slice.ts';
import { Cache } from '../../../src/cluster/cache/cache.ts';
import type { ChainProbe } from '../../../src/kernel/chain-probe.ts';
import type { CommandRunner } from '../../../src/kernel/commands.ts';
import { type IptablesBackend, IptablesTools } from '../../../src/kernel/iptables-tools.ts';
import type { Sysctls } from '../../../src/kernel/sysctls.ts';
import { goneEvent, SOURCE_KINDS, type SourceEvent } from '../../../src/proxy/model/events.ts';
import { Flows } from '../../../src/proxy/model/flows.ts';
import { MODES } from '../../../src/proxy/model/modes.ts';
import type { Fault } from '../../../src/proxy/model/objects.ts';
import { ProxyModel } from '../../../src/proxy/model/proxy-model.ts';
import { iptablesMode } from '../../../src/proxy/modes/iptables/index.ts';
import type { IptablesSettings } from '../../../src/proxy/modes/iptables/static-chains.ts';
import type { Mode } from '../../../src/proxy/modes/mode.ts';
import type { Plan } from '../../../src/proxy/reconcile/step.ts';
import { SyncLoop } from '../../../src/proxy/sync/loop.ts';
import type { SyncReport } from '../../../src/proxy/sync/sync-results.ts';
import type { Step } from '../cluster/histories.ts';
import { nodeOf } from '../cluster/objects.ts';

export interface RigOptions {
  readonly commands: CommandRunner;
  /** Instead of iptables mode. */
  readonly mode?: Mode;
  readonly sysctls?: Sysctls;
  readonly nodeName?: string;
  /** Milliseconds until refused Services are tried again; by default at every sync. */
  readonly retry?: number;
  readonly backend?: IptablesBackend;
  readonly families?: readonly ('IPv4' | 'IPv6')[];
  readonly probe?: (family: 'IPv4' | 'IPv6') => ChainProbe;
  readonly settings?: (family: 'IPv4' | 'IPv6') => Partial<IptablesSettings>;
  readonly onPlan?: (plan: Plan) => void;
  /** The feature gate AllowServiceExternalIPs; default: on. */
  readonly servesExternalIPs?: boolean | undefined;
  /** The clock of slow starts; without it endpoints have their whole weights at once. */
  readonly growing?: GrowingClock;
}

export type GrowingClock = ConstructorParameters<typeof Cache>[0];

export const NEVER: AbortSignal = new AbortController().signal;

/** Kernel settings in memory. */
export function fakeSysctls(): Sysctls & { readonly values: Map<string, string> } {
  const values = new Map<string, string>([['net/ipv4/conf/all/route_localnet', '0']]);
  return {
    values,
    read: (name) => Promise.resolve(values.get(name)),
    write(name, value) {
      values.set(name, value);
      return Promise.resolve();
    },
  };
}

export class Rig {
  readonly cache: Cache;
  readonly faults: Fault[] = [];
  readonly mode: Mode;
  readonly model: ProxyModel;
  readonly flows: Flows;
  readonly loop: SyncLoop;
  #became: ReadonlySet<string> = new Set();

  constructor(options: RigOptions) {
    const { nodeName = 'node', families = FAMILIES, backend = 'auto', commands } = options;
    const sysctls = options.sysctls ?? fakeSysctls();
    this.cache = new Cache(options.growing);
    const inFamily = (family: 'IPv4' | 'IPv6') => ({
      settings: { ...defaultSettings(family), ...options.settings?.(family) },
      tools: new IptablesTools(commands, family, backend),
      probe: options.probe?.(family),
      sysctls,
    });
    this.mode = options.mode ?? iptablesMode(families.map(inFamily));
    const abilities = { servesExternalIPs: options.servesExternalIPs !== false, mode: MODES[this.mode.name] };
    const model = new ProxyModel({ nodeName, zone: '' }, abilities);
    this.model = model;
    this.flows = new Flows((at) => model.frontend(at));
    const onFault = (fault: Fault) => this.faults.push(fault);
    this.loop = new SyncLoop({
      cache: this.cache,
      model,
      mode: this.mode,
      flows: this.flows,
      clock: realClock,
      nodeName,
      retry: options.retry ?? 0,
      onUnread: () => undefined,
      onFault,
      ...(options.onPlan === undefined ? {} : { onPlan: options.onPlan }),
    });
    for (const kind of SOURCE_KINDS) this.cache.take({ kind: 'synced', of: kind });
  }

  /** Takes API objects. */
  put(...objects: object[]): this {
    for (const object of objects) this.faults.push(...this.cache.take(eventOf(object)));
    return this;
  }

  /** `Service default/web` or `EndpointSlice default/web-1`. */
  remove(kind: 'Service' | 'EndpointSlice', key: string): this {
    this.cache.take(goneEvent(kind === 'Service' ? 'services' : 'slices', key));
    return this;
  }

  /** Takes these objects, and removes all others that it took before. */
  become({ objects, zone }: { readonly objects: readonly object[]; readonly zone?: string }): this {
    const now = new Set(objects.map(idOf));
    for (const id of this.#became) {
      const [kind = '', key = ''] = id.split(' ');
      if (!now.has(id)) this.remove(kind as 'Service', key);
    }
    this.#became = now;
    return this.put(nodeOf(zone), ...objects);
  }

  sync(): Promise<SyncReport> {
    return this.loop.sync(NEVER);
  }
}

/** Feeds a history to a rig, and syncs at its end; returns the objects at that time. */
export async function follow(rig: Rig, steps: readonly Step[]): Promise<Map<string, object>> {
  const objects = new Map<string, object>();
  const synced = async () => {
    const report = await rig.sync();
    assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
  };
  for (const step of steps) {
    if (step.kind === 'sync') await synced();
    else if (step.kind === 'put') {
      objects.set(step.id, step.object);
      rig.put(step.object);
    } else if (step.kind === 'remove') {
      objects.delete(step.id);
      rig.remove(...(step.id.split(' ') as ['Service', string]));
    } else {
      objects.set('Node', nodeOf(step.zone));
      rig.put(nodeOf(step.zone));
    }
  }
  await synced();
  return objects;
}

/** The event of an API object, as a source emits it. */
export function eventOf(object: object): SourceEvent {
  const { kind } = object as { kind: string };
  const key = objectKey(object) ?? 'bad/bad';
  if (kind === 'Node') return decodeNode(object, key.slice(key.indexOf('/') + 1));
  return kind === 'Service' ? decodeService(object, key) : decodeSlice(object, key);
}

/** `Service default/web` */
function idOf(object: object): string {
  return `${(object as { kind: string }).kind} ${objectKey(object) ?? 'bad/bad'}`;
}

/** The settings of a node of the lab. */
export function defaultSettings(family: 'IPv4' | 'IPv6'): IptablesSettings {
  return {
    family,
    masqueradeBit: 14,
    masqueradeAll: false,
    localDetector: { kind: 'none' },
    nodePortAddresses: 'all',
    localhostNodePorts: family === 'IPv4',
    dropInvalid: true,
    nodeAddresses: [],
  };
}
