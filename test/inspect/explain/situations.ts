/** Situations that operators ask about, each with its questions. The answers are in test/data/answers; `node test/inspect/explain/situations.ts` writes them. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Address } from '../../../src/base/address.ts';
import { explanationText } from '../../../src/inspect/wire/explanation.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { nodeOf, service, slice } from '../../helpers/cluster/objects.ts';
import { askedNode, type Known, MODES, type NodeOptions } from '../../helpers/inspect/explain/asking.ts';

export interface Situation {
  readonly name: string;
  /** By default all. */
  readonly modes?: readonly ModeName[];
  readonly options?: NodeOptions;
  readonly objects: readonly object[];
  /** FROM and TO. */
  readonly questions: readonly (readonly [from: string, to: string])[];
  readonly rules?: boolean;
  readonly known?: Known;
}

const POD = '10.244.1.99';
const here = (host: number, more: object = {}) => ({ addresses: [`10.244.1.${host}`], nodeName: 'node', ...more });
const away = (host: number, more: object = {}) => ({ addresses: [`10.244.2.${host}`], nodeName: 'other', ...more });
const is = (ready: boolean, serving: boolean, terminating: boolean) => ({
  conditions: { ready, serving, terminating },
});
const hinted = (zone: string) => ({ hints: { forZones: [{ name: zone }] } });

interface Shop {
  readonly name?: string;
  readonly ip?: string;
  readonly spec?: object;
  readonly status?: Record<string, unknown>;
  readonly endpoints?: readonly object[];
  readonly createdAt?: string;
  readonly annotations?: Record<string, string>;
}

/** A Service of the namespace `shop`, with a slice where it has endpoints. */
function shop({
  name = 'web',
  ip = '10.96.0.10',
  spec = {},
  status,
  endpoints,
  createdAt,
  annotations,
}: Shop): object[] {
  const of = {
    ...{ name, namespace: 'shop', spec: { clusterIP: ip, ports: [{ port: 80 }], ...spec } },
    ...(status === undefined ? {} : { status }),
    ...(createdAt === undefined ? {} : { createdAt }),
    ...(annotations === undefined ? {} : { annotations }),
  };
  if (endpoints === undefined) return [service(of)];
  const own = { namespace: 'shop', service: name, addressType: 'IPv4' as const, endpoints };
  return [service(of), slice({ name: `${name}-1`, ...own })];
}

const EXTERNAL = { externalIPs: ['198.51.100.10'] };
const STICKY = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } } };

const LOCALHOST = '127.0.0.1' as Address;
const TAKEN = new Map([[`${LOCALHOST} 30083`, 'listen EADDRINUSE: address already in use 127.0.0.1:30083']]);
const atNodePort = (nodePort: number, protocol = 'TCP') => ({
  type: 'NodePort',
  ports: [{ port: 80, nodePort, protocol }],
});

export const SITUATIONS: readonly Situation[] = [
  {
    name: 'a Service with a scheduler of its own',
    modes: ['ipvs'],
    objects: shop({ annotations: { 'slicewire.dev/ipvs-scheduler': 'sh,sh-port' }, endpoints: [here(11), away(12)] }),
    questions: [[POD, 'svc/shop/web']],
  },
  {
    name: 'a stable choice',
    modes: ['nftables', 'ipvs'],
    objects: shop({ annotations: { 'slicewire.dev/balance': 'hash' }, endpoints: [here(11), here(12), away(13)] }),
    questions: [
      [POD, 'svc/shop/web'],
      ['203.0.113.9', 'svc/shop/web'],
    ],
  },
  {
    name: 'limits',
    modes: ['nftables', 'iptables'],
    objects: shop({
      annotations: {
        'slicewire.dev/new-connections': '100/s burst 200',
        'slicewire.dev/max-connections-per-client': '20',
        'slicewire.dev/max-connections': '1000',
      },
      endpoints: [here(11), away(12)],
    }),
    questions: [[POD, 'svc/shop/web']],
    rules: true,
    known: {
      more: {
        refusedBy: () =>
          Promise.resolve(
            new Map([
              ['new-connections', 7],
              ['max-connections', 0],
            ]),
          ),
      },
    },
  },
  {
    name: 'no endpoints',
    objects: shop({}),
    questions: [[POD, 'svc/shop/web']],
  },
  {
    name: 'a readiness probe fails',
    objects: shop({
      endpoints: [here(11), here(12, is(false, false, false)), here(13, is(false, true, true)), away(14)],
    }),
    questions: [['outside', 'svc/shop/web']],
  },
  {
    name: 'Local without local endpoints',
    objects: shop({
      spec: {
        type: 'NodePort',
        internalTrafficPolicy: 'Local',
        externalTrafficPolicy: 'Local',
        ports: [{ port: 80, nodePort: 30_080 }],
      },
      endpoints: [away(11), away(12)],
    }),
    questions: [
      [POD, 'svc/shop/web'],
      ['203.0.113.9', 'nodeport:30080'],
    ],
  },
  {
    name: 'hints',
    objects: shop({ endpoints: [here(11, hinted('zone-a')), away(12, hinted('zone-b'))] }),
    questions: [[POD, 'svc/shop/web']],
  },
  {
    name: 'two Services that want one address',
    objects: [
      ...shop({
        name: 'first',
        ip: '10.96.0.51',
        spec: EXTERNAL,
        endpoints: [here(11)],
        createdAt: '2026-01-01T00:00:00Z',
      }),
      ...shop({
        name: 'copy',
        ip: '10.96.0.52',
        spec: EXTERNAL,
        endpoints: [here(12)],
        createdAt: '2026-01-02T00:00:00Z',
      }),
    ],
    questions: [
      ['203.0.113.9', '198.51.100.10:80'],
      [POD, 'svc/shop/copy'],
    ],
  },
  {
    name: 'a refused Service',
    modes: ['iptables'],
    options: { refuse: (line) => line.includes('--to-destination 10.244.1.11:8080') },
    objects: shop({ endpoints: [here(11)] }),
    questions: [[POD, 'svc/shop/web']],
  },
  {
    name: 'affinity',
    objects: shop({ spec: STICKY, endpoints: [here(11), away(12)] }),
    questions: [[POD, 'svc/shop/web']],
    known: {
      remembered: (memories) =>
        new Map([...memories.lists, ...memories.destinations].slice(0, 1).map((name) => [name, 540])),
    },
  },
  {
    name: 'hairpin',
    objects: shop({ endpoints: [here(11), away(12)] }),
    questions: [['10.244.1.11', 'svc/shop/web']],
    rules: true,
  },
  {
    name: 'hairpin of another node',
    objects: shop({
      spec: { ...atNodePort(30_080), externalTrafficPolicy: 'Local' },
      endpoints: [here(11), away(12)],
    }),
    questions: [
      ['10.244.2.12', 'nodeport:30080'],
      [POD, 'nodeport:30080'],
    ],
  },
  {
    name: 'a wrong port',
    objects: shop({ spec: { type: 'NodePort', ports: [{ port: 80, nodePort: 30_080 }] }, endpoints: [here(11)] }),
    options: { nodePortAddresses: ['192.168.77.2' as Address] },
    questions: [
      [POD, '10.96.0.10:8080'],
      [POD, '10.96.0.10:80/udp'],
      [POD, '10.244.1.1:30080'],
    ],
  },
  {
    name: 'an address of nobody',
    objects: shop({ endpoints: [here(11)] }),
    questions: [
      [POD, '10.96.0.77:80'],
      ['node', '192.168.77.2:22'],
      [POD, '10.244.1.11:8080'],
    ],
    known: { formerOwner: { service: 'shop/old', until: '12:03:04' } },
  },
  {
    name: 'source ranges',
    objects: shop({
      spec: { type: 'LoadBalancer', loadBalancerSourceRanges: ['10.0.0.0/8'] },
      status: { loadBalancer: { ingress: [{ ip: '198.51.100.20' }] } },
      endpoints: [here(11)],
    }),
    questions: [
      ['203.0.113.9', '198.51.100.20:80'],
      ['10.1.2.3', '198.51.100.20:80'],
      ['node', '198.51.100.20:80'],
    ],
  },
  {
    name: 'node ports on loopback',
    modes: ['nftables', 'ipvs'],
    objects: [
      ...shop({ spec: { ...atNodePort(30_080), ...STICKY }, endpoints: [here(11), away(12)] }),
      ...shop({ name: 'one', ip: '10.96.0.11', spec: atNodePort(30_081), endpoints: [away(13)] }),
      ...shop({
        name: 'local',
        ip: '10.96.0.12',
        spec: { ...atNodePort(30_082), externalTrafficPolicy: 'Local' },
        endpoints: [away(14)],
      }),
      ...shop({ name: 'taken', ip: '10.96.0.13', spec: atNodePort(30_083), endpoints: [here(15)] }),
      ...shop({
        name: 'special',
        ip: '10.96.0.14',
        spec: atNodePort(30_084),
        endpoints: [{ addresses: ['127.0.0.1'] }],
      }),
      ...shop({ name: 'udp', ip: '10.96.0.15', spec: atNodePort(30_053, 'UDP'), endpoints: [here(16)] }),
    ],
    questions: [
      ['node', '127.0.0.1:30080'],
      ['node', '127.0.0.1:30081'],
      ['node', '127.0.0.1:30082'],
      ['node', '127.0.0.1:30083'],
      ['node', '127.0.0.1:30084'],
      ['node', '127.0.0.1:30053/udp'],
      ['node', '127.0.0.9:30081'],
      ['node', '127.0.0.1:22'],
    ],
    known: { more: { relay: { addresses: [LOCALHOST], failures: TAKEN } } },
  },
  {
    name: 'node ports on loopback that nobody named',
    modes: ['nftables', 'ipvs'],
    objects: shop({ spec: atNodePort(30_080), endpoints: [here(11)] }),
    questions: [['node', '127.0.0.1:30080']],
  },
  {
    name: 'a cluster IP on a device of the node',
    options: { otherAddresses: ['10.96.0.10' as Address] },
    objects: shop({ endpoints: [here(11)] }),
    questions: [[POD, 'svc/shop/web']],
  },
];

/** The answers in a mode, one after another. */
export async function answersOf(situation: Situation, mode: ModeName): Promise<string> {
  const node = askedNode(mode, situation.options);
  node.rig.put(nodeOf('zone-a'), ...situation.objects);
  await node.sync();
  const { known = {} } = situation;
  const texts: string[] = [];
  for (const [from, to] of situation.questions) {
    const answer = await node.ask(from, to, { ...known, rules: situation.rules === true });
    texts.push(
      `$ slicewire explain ${from} ${to}${situation.rules === true ? ' --rules' : ''}\n${explanationText(answer)}`,
    );
  }
  return texts.join('\n');
}

/** One text where the modes agree, otherwise one for each. */
export async function told(situation: Situation): Promise<string> {
  const texts = await Promise.all(
    (situation.modes ?? MODES).map(async (mode) => ({ mode, text: await answersOf(situation, mode) })),
  );
  const same = new Set(texts.map(({ mode, text }) => text.replaceAll(` in ${mode} mode`, ' in every mode')));
  const [only] = same;
  if (texts.length === 1) return texts[0]?.text ?? '';
  if (same.size === 1 && only !== undefined) return only;
  return texts.map(({ mode, text }) => `### ${mode}\n\n${text}`).join('\n');
}

export function fileOf({ name }: Situation): string {
  return fileURLToPath(new URL(`../../data/answers/${name.toLowerCase().replaceAll(' ', '-')}.txt`, import.meta.url));
}

if (import.meta.main) {
  mkdirSync(fileURLToPath(new URL('../../data/answers', import.meta.url)), { recursive: true });
  for (const situation of SITUATIONS) writeFileSync(fileOf(situation), await told(situation));
}
