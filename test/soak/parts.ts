/** The processes of a soak beside the agent, each inside a namespace of the lab. */
import { fileURLToPath } from 'node:url';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { podAddress } from '../../src/cli/lab/lab.ts';
import { InsideProcess } from '../bench/inside.ts';
import { clientTargets, ENDPOINT_PORT, podTargets, remoteAddresses, SERVICE_RANGES } from './cluster.ts';
import type { ProbeAnswer, ProbeCommand, Probed, ProbeOptions } from './probe-protocol.ts';
import type { Moved, ServerAnswer, ServerCommand, ServerOptions } from './server-protocol.ts';
import type { WatchAnswer, WatchCommand } from './watch-protocol.ts';

const program = (name: string) => fileURLToPath(new URL(`./${name}.ts`, import.meta.url));

export type Server = InsideProcess<ServerCommand, ServerAnswer, Moved>;
export type Probes = InsideProcess<ProbeCommand, ProbeAnswer, Probed>;
export type Watch = InsideProcess<WatchCommand, WatchAnswer, never>;

export interface Parts {
  readonly server: Server;
  readonly probes: readonly Probes[];
  readonly watch: Watch;
}

export interface PartsOptions extends ServerOptions {
  readonly lab: Lab;
  /** Questions a second. */
  readonly probesPerSecond: number;
  readonly onMoved: (moved: Moved) => void;
  readonly onProbed: (probed: Probed) => void;
  /** Told of each process at once, so that it is stopped whatever becomes of the others. */
  readonly keep: (one: { stop(): Promise<void> }) => void;
}

/** Resolves when the server has all objects, and all endpoints answer. */
export async function startParts(options: PartsOptions): Promise<Parts> {
  const { lab, keep, onMoved, onProbed, services, perSecond, seed, probesPerSecond } = options;
  await prepare(lab);
  const kept = <T extends { stop(): Promise<void> }>(one: T): T => {
    keep(one);
    return one;
  };
  const serverArgs = [JSON.stringify({ services, perSecond, seed } satisfies ServerOptions)];
  const server: Server = kept(
    new InsideProcess({ lab, namespace: 'node', program: program('server'), args: serverArgs, onTold: onMoved }),
  );
  const places: readonly (readonly [string, readonly string[]])[] = [
    ['other', remoteAddresses()],
    ['pod-2', Object.values(podAddress(2))],
    ['pod-3', Object.values(podAddress(3))],
  ];
  const ready = places.map(async ([namespace, addresses]) => {
    const args = [String(ENDPOINT_PORT), ...addresses];
    await kept(new InsideProcess({ lab, namespace, program: program('answer-inside'), args })).ask({ kind: 'ready' });
  });
  const from = (namespace: string, given: ProbeOptions): Probes => {
    const args = [JSON.stringify(given)];
    return kept(new InsideProcess({ lab, namespace, program: program('probe-inside'), args, onTold: onProbed }));
  };
  const probes = [
    from('pod-1', { targets: podTargets(), perSecond: probesPerSecond }),
    from('client', { targets: clientTargets(), perSecond: probesPerSecond / 5 }),
  ];
  const watch: Watch = kept(new InsideProcess({ lab, namespace: 'node', program: program('watch-inside') }));
  await Promise.all([...ready, server.ask({ kind: 'ready' })]);
  return { server, probes, watch };
}

/** Routes: every address of the other node's pods is there, and a packet that nothing translated is refused outside. */
async function prepare(lab: Lab): Promise<void> {
  await lab.exec('other', 'ip', 'route', 'add', 'local', '10.244.2.0/24', 'dev', 'lo');
  await lab.exec('client', 'ip', 'route', 'add', 'local', SERVICE_RANGES.v4, 'dev', 'lo');
  await lab.exec('client', 'ip', '-6', 'route', 'add', 'local', SERVICE_RANGES.v6, 'dev', 'lo');
}
