/** Services as rows, and one Service with all that is known of it. */

import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { firstLines, kernelPlaces } from '../../../src/inspect/overview/kernel-lines.ts';
import { WrongQuestion } from '../../../src/inspect/wire/envelope.ts';
import { type ServiceRow, serviceSchema, servicesSchema } from '../../../src/inspect/wire/services.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { askedNode, MODES } from '../../helpers/inspect/explain/asking.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import { QUESTIONS } from '../../messages/questions.ts';
import { messageIn } from '../../messages/row.ts';
import { type PageNode, pageNode } from './page-node.ts';

const ALL = { search: '', offset: 0, limit: 100 };
const ready = { addresses: ['10.244.1.5'], nodeName: 'node' };
const LONG = 'a'.repeat(63);

const web = service({
  name: 'web',
  namespace: 'shop',
  spec: {
    type: 'LoadBalancer',
    clusterIP: '10.96.0.10',
    externalIPs: ['192.0.2.1'],
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 32_000,
    loadBalancerSourceRanges: ['10.0.0.0/8'],
    ports: [
      { name: 'http', port: 80, nodePort: 30_080 },
      { name: 'dns', port: 53, protocol: 'UDP' },
    ],
  },
  status: { loadBalancer: { ingress: [{ ip: '198.51.100.1' }] } },
});
const webSlice = slice({
  name: 'web-1',
  namespace: 'shop',
  service: 'web',
  ports: [
    { name: 'http', port: 8080 },
    { name: 'dns', port: 5353, protocol: 'UDP' },
  ],
  endpoints: [ready, { addresses: ['10.244.2.5'], nodeName: 'other', conditions: { ready: false, serving: false } }],
});

async function rowsOf({ overview }: PageNode, question = ALL): Promise<ServiceRow[]> {
  const answer = await overview.services(question, NEVER);
  return servicesSchema.parse(JSON.parse(JSON.stringify(answer))).rows;
}

describe('the list of Services', () => {
  it('has addresses, ports and the state with its reason', async () => {
    const node = pageNode({ refuse: (line) => line.includes('shop/refused') });
    const plain = (name: string, ip: string, more: object = {}) =>
      service({ name, namespace: 'shop', spec: { clusterIP: ip, ports: [{ port: 80 }], ...more } });
    node.recorded.put(web, webSlice);
    node.recorded.put(plain('empty', '10.96.0.11'), plain('bad', 'nonsense'), plain('refused', '10.96.0.12'));
    node.recorded.put(plain('torn', '10.96.0.13', { externalIPs: ['nonsense'] }));
    node.recorded.put(plain('far', '10.96.0.14', { internalTrafficPolicy: 'Local' }));
    const elsewhere = [{ addresses: ['10.244.2.6'], nodeName: 'other' }];
    node.recorded.put(slice({ name: 'far-1', namespace: 'shop', service: 'far', endpoints: elsewhere }));
    await node.recorded.sync('start');
    node.recorded.put(plain('late', '10.96.0.15'));
    const rows = await rowsOf(node);
    assert.deepEqual(
      rows.map(({ service: name, state, endpoints }) => [name.slice(5), state, endpoints]),
      [
        ['bad', 'fault', 0],
        ['empty', 'no endpoints', 0],
        ['far', 'no endpoints', 0],
        ['late', 'waiting', 0],
        ['refused', 'refused', 0],
        ['torn', 'fault', 0],
        ['web', 'served', 1],
      ],
    );
    const why = Object.fromEntries(rows.map((row) => [row.service.slice(5), row.why]));
    assert.match(why.bad ?? '', /^Service shop\/bad: spec\.clusterIPs?.*nonsense.*\(object set aside\)$/);
    assert.equal(why.empty, 'No endpoint is ready. New connections are refused.');
    assert.match(why.far ?? '', /^Its policy is Local, and none of its endpoints is on this node/);
    assert.equal(why.late, 'A change of it is not in the kernel yet.');
    assert.match(why.refused ?? '', /^The kernel refuses it: ./);
    assert.match(why.torn ?? '', /externalIPs.*nonsense/);
    assert.equal(why.web, '');
    assert.deepEqual(rows.at(-1), {
      service: 'shop/web',
      type: 'LoadBalancer',
      addresses: ['10.96.0.10', '192.0.2.1', '198.51.100.1'],
      ports: ['80:30080/TCP', '53/UDP'],
      endpoints: 1,
      state: 'served',
      why: '',
    });
  });

  it('is a window of those that fit', async () => {
    const node = pageNode();
    for (let i = 10; i < 40; i++) {
      node.recorded.put(service({ name: `s${i}`, spec: { clusterIP: `10.96.1.${i}`, ports: [{ port: 80 }] } }));
    }
    const { total, rows } = await node.overview.services({ search: 's2', offset: 7, limit: 5 }, NEVER);
    assert.deepEqual([total, rows.map((row) => row.service)], [10, ['default/s27', 'default/s28', 'default/s29']]);
    assert.equal((await rowsOf(node, { search: '10.96.1.3', offset: 0, limit: 0 })).length, 0);
  });

  it('takes hostile texts as texts', async () => {
    const node = pageNode();
    const spec = { clusterIP: '10.96.0.20', ports: [{ port: 80 }], externalIPs: ['<img src=x onerror=alert(1)>'] };
    node.recorded.put(service({ name: LONG, namespace: LONG, spec }));
    const [row] = await rowsOf(node, { ...ALL, search: `${LONG}/${LONG}` });
    assert.equal(row?.service, `${LONG}/${LONG}`);
    assert.match(row?.why ?? '', /<img src=x onerror=alert\(1\)>/);
    for (const search of ['<img onerror>', '.*', '(', '\\', '\u0000', '%', '__proto__', 'constructor']) {
      assert.deepEqual(await rowsOf(node, { ...ALL, search }), [], search);
    }
  });
});

describe('one Service', () => {
  it('has its frontends, its endpoints with reasons, and what the kernel has for it', async () => {
    const node = pageNode();
    node.recorded.put(web, webSlice);
    await node.recorded.sync('start');
    const answer = serviceSchema.parse(JSON.parse(JSON.stringify(await node.overview.service('shop/web'))));
    assert.equal(answer.row.state, 'served');
    const shown = answer.frontends.map(({ port, kind, address, number, policy, sources, endpoints }) =>
      [port, kind, address, number, policy, sources.join(), endpoints].join(' '),
    );
    assert.deepEqual(shown, [
      'http cluster IP 10.96.0.10 80 Cluster  1',
      'http external IP 192.0.2.1 80 Local  1',
      'http load balancer 198.51.100.1 80 Local 10.0.0.0/8 1',
      'http node port  30080 Local  1',
      'dns cluster IP 10.96.0.10 53 Cluster  1',
      'dns external IP 192.0.2.1 53 Local  1',
      'dns load balancer 198.51.100.1 53 Local 10.0.0.0/8 1',
      ' health check  32000 Local  1',
    ]);
    assert.deepEqual(
      answer.slices.map((one) => [one.slice, one.endpoints.map(({ endpoint, used, why }) => [endpoint, used, why])]),
      [
        [
          'shop/web-1',
          [
            ['10.244.1.5:8080', true, 'ready'],
            ['10.244.2.5:8080', false, 'not ready'],
            ['10.244.1.5:5353', true, 'ready'],
            ['10.244.2.5:5353', false, 'not ready'],
          ],
        ],
      ],
    );
    const lines = answer.rules.flatMap((place) => place.lines);
    for (const pattern of [
      /-d 10\.96\.0\.10\/32 .*--dport 80 /,
      /--dport 30080/,
      /DNAT --to-destination 10\.244\.1\.5:8080/,
    ]) {
      assert.ok(
        lines.some((line) => pattern.test(line)),
        String(pattern),
      );
    }
    assert.equal(answer.rulesOmitted, 0);
  });

  it('that is set aside has its faults; one that is not known is a wrong question', async () => {
    const node = pageNode();
    node.recorded.put(
      web,
      service({ name: 'bad', namespace: 'shop', spec: { clusterIP: 'nonsense', ports: [{ port: 80 }] } }),
    );
    const bad = await node.overview.service('shop/bad');
    serviceSchema.parse(bad);
    assert.deepEqual([bad.row.state, bad.row.type, bad.faults.length, bad.rules], ['fault', '', 1, []]);
    // A page may stay open for a Service that is gone: the others are not unpacked each time, because they may be very many.
    mock.method(node.recorded.rig.cache, 'services', () => assert.fail('all Services are unpacked'));
    await assert.rejects(node.overview.service('shop/wbe'), (error) => {
      assert.ok(error instanceof WrongQuestion);
      assert.equal(error.message, messageIn(QUESTIONS, 'no Service shop/wbe'));
      return true;
    });
  });
});

/** What the lines of a mode must have. */
const HAS: Readonly<Record<ModeName, readonly RegExp[]>> = {
  iptables: [
    /^nat chain KUBE-SVC-.* --to-destination 10\.244\.1\.5:8080$/,
    /^nat chain KUBE-NODEPORTS .*--dport 30080/,
    /^nat chain KUBE-FW-.* -s 10\.0\.0\.0\/8 /,
  ],
  nftables: [
    /^map services 10\.96\.0\.10 \. tcp \. 80 : goto cluster-ip-of-1$/,
    /^map backends 10\.96\.0\.10 \. tcp \. 80 \. 0 : 10\.244\.1\.5 \. 8080$/,
    /^map node-ports tcp \. 30080 : goto /,
    /^set source-ranges 198\.51\.100\.1 \. tcp \. 80 \. 10\.0\.0\.0-10\.255\.255\.255$/,
    /^chain cluster-ip-of-1 .*translate to address/,
  ],
  ipvs: [
    /^virtual server TCP 10\.96\.0\.10:80 -t 10\.96\.0\.10:80 -s rr$/,
    /^virtual server TCP 10\.96\.0\.10:80 -t 10\.96\.0\.10:80 -r 10\.244\.1\.5:8080 -m -w 1$/,
    /^virtual server TCP 192\.168\.77\.2:30080 /,
    /^nat chain KUBE-IPVS-LOCAL -d 192\.168\.77\.2\/32 .*--dport 30080 -j KUBE-SVC-/,
    /^nat chain KUBE-SVC-.* --to-destination 10\.244\.1\.5:8080$/,
  ],
};

describe('what the kernel has for a Service', () => {
  for (const mode of MODES) {
    it(`is found in ${mode} mode among many others, and is of nobody else`, async () => {
      const node = askedNode(mode);
      node.rig.put(web, webSlice);
      for (let i = 1; i < 200; i++) {
        const spec = { clusterIP: `10.96.1.${i}`, ports: [{ port: 80, nodePort: 31_000 + i }] };
        node.rig.put(service({ name: `crowd${i}`, namespace: 'shop', spec: { type: 'NodePort', ...spec } }));
        node.rig.put(
          slice({ name: `crowd${i}-1`, namespace: 'shop', service: `crowd${i}`, endpoints: [`10.244.3.${i}`] }),
        );
      }
      await node.sync();
      const facts = {
        view: node.view('IPv4'),
        nodePortAddresses: node.facts().families.get('IPv4')?.nodePortAddresses ?? [],
      };
      const places = kernelPlaces(node.rig.model.portsOf('shop/web'), facts);
      const lines = places.flatMap(({ where, lines: of }) => of.map((line) => `${where} ${line}`));
      for (const pattern of HAS[mode])
        assert.ok(
          lines.some((line) => pattern.test(line)),
          `${pattern}\n${lines.join('\n')}`,
        );
      assert.deepEqual(
        lines.filter((line) => /crowd|10\.96\.1\.|10\.244\.3\.|31\d\d\d/.test(line)),
        [],
      );
      const first = firstLines(places, 3);
      assert.equal(first.rules.flatMap((place) => place.lines).length, 3);
      assert.equal(first.rulesOmitted, lines.length - 3);
    });
  }
});

describe('one Service with annotations of slicewire', () => {
  it('has those whose values are right, and the faults of the others', async () => {
    const node = pageNode();
    const annotations = {
      'slicewire.dev/balance': 'hash',
      'slicewire.dev/slow-start': '90s',
      'slicewire.dev/new-connections': '100/s',
      'slicewire.dev/max-connections': 'many',
    };
    const spec = { clusterIP: '10.96.0.20', ports: [{ port: 80 }] };
    node.recorded.put(service({ name: 'limited', namespace: 'shop', spec, annotations }));
    await node.recorded.sync('start');
    const answer = serviceSchema.parse(JSON.parse(JSON.stringify(await node.overview.service('shop/limited'))));
    assert.deepEqual(answer.annotations, [
      'slicewire.dev/balance: hash',
      'slicewire.dev/slow-start: 1m30s',
      'slicewire.dev/new-connections: 100/s burst 100',
    ]);
    assert.match(answer.faults.map(({ field }) => field).join(), /max-connections/);
  });
});
