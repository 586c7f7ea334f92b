/** Ten questions that operators of service proxies ask, each with the situation that raises it, as it is made on a real node. */
import { setTimeout as pause } from 'node:timers/promises';
import { podAddress, remotePodAddress } from '../../src/cli/lab/lab.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { type AskedMode, type Said, type Scene, TCP_PORT, UDP_PORT } from './scene.ts';

/** What happened on the node, in the order of the transcript. */
export type Line = Said | { readonly packet: string };

export interface Question {
  readonly title: string;
  /** The situation, as a few sentences. */
  readonly situation: string;
  readonly mode: AskedMode;
  /** Make the situation, ask, and undo what later questions must not meet. */
  readonly tell: (scene: Scene) => Promise<readonly Line[]>;
  /** What the answers must say, each as a pattern. */
  readonly says: readonly RegExp[];
}

const CLIENT = podAddress(3).v4;
const on = (n: number, more: object = {}) => ({ addresses: [podAddress(n).v4], nodeName: 'node', ...more });
const elsewhere = { addresses: [remotePodAddress(1).v4], nodeName: 'other' };
const is = (ready: boolean, serving: boolean, terminating: boolean) => ({
  conditions: { ready, serving, terminating },
});

interface ServiceOf {
  readonly name: string;
  readonly clusterIP: string;
  readonly spec?: object;
  readonly endpoints: readonly object[];
  readonly protocol?: 'TCP' | 'UDP' | 'SCTP';
  readonly createdAt?: string;
}

/** A Service of the namespace `shop` with one slice. */
function shop({ name, clusterIP, spec = {}, endpoints, protocol = 'TCP', createdAt }: ServiceOf): object[] {
  const port = protocol === 'UDP' ? 53 : 80;
  const target = protocol === 'UDP' ? UDP_PORT : TCP_PORT;
  const of = {
    ...{ name, namespace: 'shop', spec: { clusterIP, ports: [{ port, protocol }], ...spec } },
    ...(createdAt === undefined ? {} : { createdAt }),
  };
  if (endpoints.length === 0) return [service(of)];
  const ports = [{ name: '', port: target, protocol }];
  return [
    service(of),
    slice({ name: `${name}-1`, namespace: 'shop', service: name, addressType: 'IPv4', ports, endpoints }),
  ];
}

async function packet(scene: Scene, ...[from, to, port, more]: Parameters<Scene['send']>): Promise<Line> {
  const what = more?.protocol === 'UDP' ? 'a datagram' : 'a connection';
  return { packet: `${what} from ${from} to ${to}:${port}: ${await scene.send(from, to, port, more)}` };
}

export const QUESTIONS: readonly Question[] = [
  {
    title: 'Connections are refused',
    situation: 'The Service `shop/cart` has no endpoints.',
    mode: 'nftables',
    async tell(scene) {
      await scene.apply('cart', ...shop({ name: 'cart', clusterIP: '10.96.0.20', endpoints: [] }));
      return [
        await packet(scene, 'pod-3', '10.96.0.20', 80),
        await scene.slicewire('explain', CLIENT, 'svc/shop/cart'),
        await scene.slicewire('explain', CLIENT, '10.96.0.20:8080'),
      ];
    },
    says: [/refused/, /no endpoint/, /has port 80, not 8080/],
  },
  {
    title: 'One pod gets no traffic',
    situation: 'The Service `shop/web` has three pods. The readiness probe of pod-2 fails.',
    mode: 'nftables',
    async tell(scene) {
      const web = (second: object) => shop({ name: 'web', clusterIP: '10.96.0.10', endpoints: [on(1), second, on(3)] });
      await scene.apply('web', ...web(on(2)));
      await scene.apply('web', ...web(on(2, is(false, false, false))));
      return [
        await scene.slicewire('explain', 'outside', 'svc/shop/web'),
        await scene.slicewire('history', 'shop/web', '--since', '1m'),
      ];
    },
    says: [/10\.244\.1\.12:8080 .*not ready/, /10\.244\.1\.12:8080 is not ready/],
  },
  {
    title: 'A Service answers on some nodes only',
    situation:
      '`shop/agent` has `internalTrafficPolicy: Local`, and its only pod runs on another node. Packets disappear.',
    mode: 'nftables',
    async tell(scene) {
      const spec = { internalTrafficPolicy: 'Local' };
      await scene.apply('agent', ...shop({ name: 'agent', clusterIP: '10.96.0.30', spec, endpoints: [elsewhere] }));
      return [
        await packet(scene, 'pod-3', '10.96.0.30', 80),
        await scene.slicewire('explain', CLIENT, 'svc/shop/agent'),
      ];
    },
    says: [/dropped/, /spec\.internalTrafficPolicy/, /not on this node/],
  },
  {
    title: 'Half of the pods get no traffic from here',
    situation: '`shop/near` has pods in two zones, and hints that keep traffic in its zone. This node is in `zone-a`.',
    mode: 'nftables',
    async tell(scene) {
      const zoned = (n: number, zone: string) => on(n, { zone, hints: { forZones: [{ name: zone }] } });
      const endpoints = [zoned(1, 'zone-a'), zoned(2, 'zone-b')];
      await scene.apply('near', ...shop({ name: 'near', clusterIP: '10.96.0.40', endpoints }));
      return [
        await packet(scene, 'pod-3', '10.96.0.40', 80),
        await scene.slicewire('explain', CLIENT, 'svc/shop/near', '--rules'),
      ];
    },
    says: [/zone-b/, /hint/],
  },
  {
    title: 'Two Services want one address',
    situation: '`shop/first` and the younger `shop/copy` both name the external IP 192.0.2.10.',
    mode: 'nftables',
    async tell(scene) {
      const spec = { externalIPs: ['192.0.2.10'] };
      const createdAt = (day: number) => `2026-01-0${day}T00:00:00Z`;
      await scene.apply(
        'copies',
        ...shop({ name: 'first', clusterIP: '10.96.0.51', spec, endpoints: [on(1)], createdAt: createdAt(1) }),
        ...shop({ name: 'copy', clusterIP: '10.96.0.52', spec, endpoints: [on(2)], createdAt: createdAt(2) }),
      );
      return [
        await packet(scene, 'client', '192.0.2.10', 80),
        await scene.slicewire('explain', 'outside', '192.0.2.10:80'),
        await scene.slicewire('status'),
      ];
    },
    says: [/shop\/first/, /shop\/copy/, /already belongs to Service shop\/first/],
  },
  {
    title: 'All requests of a client reach one pod',
    situation:
      '`shop/cache` has `sessionAffinity: ClientIP`. It has a second pod since a moment ago; the client connected before.',
    mode: 'nftables',
    async tell(scene) {
      const spec = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } } };
      const cache = (...endpoints: object[]) => shop({ name: 'cache', clusterIP: '10.96.0.60', spec, endpoints });
      await scene.apply('cache', ...cache(on(2)));
      const before = await packet(scene, 'pod-3', '10.96.0.60', 80);
      await scene.apply('cache', ...cache(on(1), on(2)));
      return [
        before,
        await packet(scene, 'pod-3', '10.96.0.60', 80),
        await scene.slicewire('explain', CLIENT, 'svc/shop/cache'),
      ];
    },
    says: [/sessionAffinity/, /for another \d+ min/],
  },
  {
    title: 'A pod sees an address of the node when it calls itself',
    situation: 'pod-1 connects to its own Service `shop/self`, and reaches itself.',
    mode: 'iptables',
    async tell(scene) {
      await scene.apply('self', ...shop({ name: 'self', clusterIP: '10.96.0.70', endpoints: [on(1)] }));
      return [
        await packet(scene, 'pod-1', '10.96.0.70', 80),
        await scene.slicewire('explain', podAddress(1).v4, 'svc/shop/self', '--rules'),
      ];
    },
    says: [/masqueraded/, /KUBE-HAIRPIN/],
  },
  {
    title: 'A UDP client still talks to a pod that is shutting down',
    situation:
      'pod-1 is terminating and still serves. pod-3 keeps sending from one port, so its flow is one that the kernel already knows.',
    mode: 'iptables',
    async tell(scene) {
      const names = (...endpoints: object[]) =>
        shop({ name: 'names', clusterIP: '10.96.0.53', endpoints, protocol: 'UDP' });
      await scene.apply('names', ...names(on(1)));
      const flow = { protocol: 'UDP', fromPort: 40_000 } as const;
      const first = await packet(scene, 'pod-3', '10.96.0.53', 53, flow);
      await scene.apply('names', ...names(on(1, is(false, true, true)), on(2)));
      const second = await packet(scene, 'pod-3', '10.96.0.53', 53, flow);
      const live = scene.slicewire('explain', CLIENT, '10.96.0.53:53/udp', '--live', '--seconds', '3');
      // However long the command takes to start on a busy machine.
      let isAnswered = false;
      const sending = (async () => {
        while (!isAnswered) {
          await scene.send('pod-3', '10.96.0.53', 53, flow);
          await pause(250);
        }
      })();
      const answer = await live.finally(() => {
        isAnswered = true;
      });
      await sending;
      await scene.applyUntilSwept('names', ...names(on(2)));
      return [first, second, answer, await packet(scene, 'pod-3', '10.96.0.53', 53, flow)];
    },
    says: [/terminating/, /10\.244\.1\.11:5353/],
  },
  {
    title: 'Traffic stopped, and nobody changed a Service',
    situation: 'Another program flushed a chain of `shop/self` while no agent ran. An agent repairs it at once.',
    mode: 'iptables',
    async tell(scene) {
      const saved = (await scene.run('iptables-save', '-t', 'nat')).text;
      const chain = /-A (KUBE-SVC-\w+) .*shop\/self/.exec(saved)?.[1] ?? 'KUBE-SVC-NONE';
      const alone = await scene.stop('iptables');
      return [
        await scene.run('iptables', '-t', 'nat', '-F', chain),
        await packet(scene, 'pod-3', '10.96.0.70', 80),
        await scene.slicewire('explain', CLIENT, 'svc/shop/self', ...alone),
        await scene.slicewire('verify', ...alone),
      ];
    },
    says: [/differs/, /KUBE-SVC-\w+/, /iptables/],
  },
  {
    title: 'One Service does not work on this node',
    situation: 'The tools of this node cannot match SCTP. `shop/game` uses it.',
    mode: 'iptables',
    async tell(scene) {
      await scene.startWithoutSctp();
      const game = shop({ name: 'game', clusterIP: '10.96.0.90', endpoints: [on(1)], protocol: 'SCTP' });
      await scene.apply('game', ...game);
      return [
        await scene.slicewire('explain', CLIENT, 'svc/shop/game'),
        await scene.slicewire('verify'),
        await scene.slicewire('status'),
      ];
    },
    says: [/refuse/, /RULE_APPEND failed/, /shop\/game/],
  },
];
