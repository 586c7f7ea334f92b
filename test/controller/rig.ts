/** A controller against an API server, with what a test asks of both. */
import type { TestContext } from 'node:test';
import { runController } from '../../src/cli/controller.ts';
import type { SliceObject } from '../../src/cluster/producers/api-objects.ts';
import { controllerConfig } from '../../src/config/controller-config.ts';
import { type LogLevel, logInto } from '../../src/telemetry/log.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';

export interface Running {
  /** Ends it as SIGTERM does. */
  stop(): Promise<void>;
}

export class ControllerRig {
  readonly server: ApiServer;
  /** The lines of its log. */
  readonly log: { readonly level: string; readonly msg: string }[] = [];
  level: LogLevel = 'info';
  readonly #context: TestContext;

  private constructor(context: TestContext, server: ApiServer) {
    this.#context = context;
    this.server = server;
  }

  static async create(t: TestContext): Promise<ControllerRig> {
    const server = await ApiServer.start();
    t.after(() => server.stop());
    return new ControllerRig(t, server);
  }

  /** Start a controller; flags as on the command line, without dashes. */
  async start(flags: Readonly<Record<string, string>> = {}): Promise<Running> {
    const abort = new AbortController();
    const kubeconfig = await this.server.kubeconfig();
    // Port 0 is none that listens: nobody asks these for metrics.
    const config = {
      ...controllerConfig({ kubeconfig, leaderElect: 'false', ...flags }),
      listen: { address: '127.0.0.1', port: 0, text: '127.0.0.1:0' } as never,
    };
    const write = (line: string) => void this.log.push(JSON.parse(line));
    const running = runController(config, logInto({ write }, this.level), abort.signal);
    const stop = async () => {
      abort.abort(new Error('stopped'));
      await running;
    };
    this.#context.after(stop);
    return { stop };
  }

  /** Writes of slices that were asked for so far. */
  get writes(): readonly { readonly method: string; readonly path: string }[] {
    return this.server.requests({ kind: 'write' }).filter(({ path }) => path.includes('/endpointslices'));
  }

  slices(service?: string): SliceObject[] {
    const all = this.server.objects('EndpointSlice') as unknown as SliceObject[];
    return all.filter(
      ({ metadata }) => service === undefined || metadata.labels?.['kubernetes.io/service-name'] === service,
    );
  }

  /** Addresses of a Service that are ready in its slices, each as often as it stands there. */
  ready(service: string): string[] {
    return this.slices(service)
      .flatMap(({ endpoints }) => endpoints)
      .filter(({ conditions }) => conditions?.ready === true)
      .flatMap(({ addresses }) => addresses)
      .sort();
  }

  service(name: string, more: object = {}): void {
    this.server.put({
      kind: 'Service',
      metadata: { name, namespace: 'default' },
      spec: {
        clusterIP: '10.96.0.10',
        ipFamilies: ['IPv4'],
        selector: { app: name },
        ports: [{ port: 80, targetPort: 8080, protocol: 'TCP' }],
        ...more,
      },
    });
  }

  pod(app: string, n: number, { ready = true, node = 'node-a' }: { ready?: boolean; node?: string } = {}): void {
    this.server.put({
      kind: 'Pod',
      metadata: { name: `${app}-${n}`, namespace: 'default', labels: { app } },
      spec: { nodeName: node, containers: [{ name: 'main' }] },
      status: {
        podIPs: [{ ip: address(n) }],
        conditions: [{ type: 'Ready', status: ready ? 'True' : 'False', lastTransitionTime: '2026-11-21T00:00:00Z' }],
      },
    });
  }

  node(name: string, zone = 'zone-1'): void {
    this.server.put({
      kind: 'Node',
      metadata: { name, labels: { 'topology.kubernetes.io/zone': zone } },
      status: { allocatable: { cpu: '4' }, conditions: [{ type: 'Ready', status: 'True' }] },
    });
  }
}

/** Of the n-th Pod. */
export function address(n: number): string {
  return `10.244.${Math.floor(n / 250)}.${(n % 250) + 1}`;
}
