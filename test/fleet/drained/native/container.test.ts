/** Both forms in a container: its ServiceAccount, its /etc/hosts, and the DNS of its cluster. Needs root, for a mount namespace of their own. */
import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { realCommands } from '../../../../src/kernel/commands.ts';
import { NEVER } from '../../../helpers/proxy/rig.ts';
import { FakeFleet, YES } from '../fake-fleet.ts';
import { DRAINED_COMMAND, madeDrainedProgram } from '../forms.ts';

/** Loopback addresses of the servers: one that answers, and one where nobody listens. */
const [DNS, NO_DNS] = ['127.0.53.1', '127.0.53.2'];
const SEARCH = 'search shop.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5 timeout:1 attempts:2\n';
const FLEET = 'slicewire-fleet.kube-system';

const ASKED = ['--pod', 'shop/web-1', '--fleet'];

/** A record A, or a code of a failure. */
type Zone = Readonly<Record<string, string | number>>;

/** A DNS server of a few names, which keeps what it was asked. */
async function dnsServer(zone: Zone) {
  const asked: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (query, { port, address }) => {
    const labels: string[] = [];
    let at = 12;
    for (let size = query[at] ?? 0; size > 0; size = query[at] ?? 0) {
      labels.push(query.toString('latin1', at + 1, at + 1 + size));
      at += 1 + size;
    }
    const name = labels.join('.');
    const type = query.readUInt16BE(at + 1);
    asked.push(`${name} ${type === 1 ? 'A' : 'AAAA'}`);
    const found = zone[name.toLowerCase()] ?? 3;
    const isAddress = typeof found === 'string' && type === 1;
    const head = Buffer.from(query.subarray(0, 12));
    head.writeUInt16BE(0x8180 | (typeof found === 'number' ? found : 0), 2);
    // One question; an alias and an address.
    for (const [place, count] of [1, isAddress ? 2 : 0, 0, 0].entries()) head.writeUInt16BE(count, 4 + 2 * place);
    const record = (kind: number, data: readonly number[]) =>
      Buffer.from([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 5, 0, data.length, ...data]);
    const records = isAddress ? [record(5, [0xc0, 12]), record(1, found.split('.').map(Number))] : [];
    // First an answer to a question that nobody asked.
    const foreign = Buffer.from(head);
    foreign.writeUInt16BE(head.readUInt16BE(0) ^ 1, 0);
    for (const start of [foreign, head])
      socket.send(Buffer.concat([start, query.subarray(12, at + 5), ...records]), port, address);
  });
  await once(socket.bind(53, DNS), 'listening');
  return { asked, close: () => new Promise<void>((resolve) => socket.close(() => resolve())) };
}

describe('a hook in a container', () => {
  let folder: string;
  let forms: Readonly<Record<string, readonly string[]>>;
  let fleet: FakeFleet;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-container-'));
    forms = { 'slicewire drained': DRAINED_COMMAND, 'slicewire-drained': [await madeDrainedProgram()] };
    fleet = await FakeFleet.open({ status: 200, body: YES });
  });
  after(async () => {
    await fleet.close();
    await rm(folder, { recursive: true });
  });

  /** Runs a form where these files stand for those of the container. */
  async function run(command: readonly string[], files: Readonly<Record<string, string>>, ...flags: readonly string[]) {
    const account = join(folder, 'secrets/kubernetes.io/serviceaccount');
    await rm(join(folder, 'secrets'), { recursive: true, force: true });
    await mkdir(account, { recursive: true });
    const all = { hosts: '127.0.0.1 localhost\n', 'resolv.conf': SEARCH, ...files };
    for (const [name, text] of Object.entries(all))
      await writeFile(join(name === 'token' || name === 'namespace' ? account : folder, name), text);
    const script =
      'cd "$1" && for f in hosts resolv.conf; do mount --bind $f /etc/$f || exit 99; done && mount -t tmpfs none /run && mkdir /run/secrets && mount --bind secrets /run/secrets || exit 99; shift; exec "$@"';
    const own = ['--mount', 'env', '-u', 'POD_NAMESPACE', 'POD_NAME=web-1', 'sh', '-c', script, 'sh', folder];
    const result = await realCommands.run({ file: 'unshare', args: [...own, ...command, ...flags] }, NEVER);
    return { status: result.exitCode, errors: result.stderr };
  }

  /** Both forms, one after the other, before the same server. */
  async function both(
    zone: Zone,
    files: Readonly<Record<string, string>>,
    check: (ran: { status: number | undefined; errors: string }, asked: readonly string[]) => void,
    ...flags: readonly string[]
  ) {
    for (const command of Object.values(forms)) {
      const dns = await dnsServer(zone);
      try {
        check(await run(command, files, ...flags), dns.asked);
      } finally {
        await dns.close();
      }
    }
  }

  const url = (host: string) => `http://${host}:${fleet.url.port}`;

  it('takes name, namespace and token of its Pod', () =>
    both(
      {},
      { namespace: 'shop\n', token: 'secret\n' },
      ({ status, errors }) => {
        assert.deepEqual([status, errors], [0, '']);
        assert.deepEqual(fleet.asked.splice(0), [
          { url: '/drained?pod=shop%2Fweb-1&timeout=30000ms', token: 'Bearer secret' },
        ]);
      },
      '--fleet',
      fleet.url.origin,
    ));

  it('says which file has no namespace', () =>
    both(
      {},
      {},
      ({ status, errors }) =>
        assert.deepEqual(
          [status, errors],
          [
            2,
            'slicewire: POD_NAME web-1: has no namespace, and /var/run/secrets/kubernetes.io/serviceaccount/namespace is not there: write NAMESPACE/NAME\n',
          ],
        ),
      '--fleet',
      fleet.url.origin,
    ));

  it('finds the fleet in /etc/hosts, without DNS', () =>
    both(
      {},
      { hosts: `# comment\n127.0.0.1\tlocalhost other ${FLEET} # own\n`, 'resolv.conf': `nameserver ${DNS}\n` },
      ({ status, errors }, asked) => assert.deepEqual([status, errors, asked], [0, '', []]),
      '--pod',
      'shop/web-1',
      '--fleet',
      url(FLEET),
    ));

  it('takes the next address of a name, and says which of them refused', async () => {
    const hosts = '127.0.0.9 fleet\n127.0.0.1 fleet\n';
    await both(
      {},
      { hosts },
      ({ status, errors }) => assert.deepEqual([status, errors], [0, '']),
      ...ASKED,
      url('fleet'),
    );
    await both(
      {},
      { hosts: '127.0.0.8 fleet\n127.0.0.9 fleet\n' },
      ({ status, errors }) => {
        assert.equal(status, 1);
        assert.match(
          errors,
          /^slicewire: the fleet at fleet:\d+ does not answer: connect ECONNREFUSED 127\.0\.0\.[89]:\d+\n$/,
        );
      },
      ...[...ASKED, url('fleet'), '--timeout', '100ms'],
    );
  });

  it('finds it by the search list, as kubelets write it', () =>
    both(
      { [`${FLEET}.svc.cluster.local`]: '127.0.0.1' },
      { 'resolv.conf': `nameserver ${DNS}\n${SEARCH}` },
      ({ status, errors }, asked) => {
        assert.deepEqual([status, errors], [0, '']);
        const names = asked.map((line) => line.split(' ')[0]);
        assert.deepEqual([...new Set(names)], [`${FLEET}.shop.svc.cluster.local`, `${FLEET}.svc.cluster.local`]);
      },
      '--pod',
      'shop/web-1',
      '--fleet',
      url(FLEET),
    ));

  it('finds a name of enough dots as it is, and one with a dot at its end nowhere else', async () => {
    const zone = { 'a.b.c.d.e.f': '127.0.0.1', 'short.example': '127.0.0.1' };
    for (const host of ['a.b.c.d.e.f', 'short.example.'])
      await both(
        zone,
        { 'resolv.conf': `nameserver ${DNS}\n${SEARCH}` },
        ({ status, errors }, asked) => {
          assert.deepEqual([status, errors], [0, '']);
          assert.ok(
            asked.every((line) => line.startsWith(`${host.replace(/\.$/, '')} `)),
            asked.join(),
          );
        },
        '--pod',
        'shop/web-1',
        '--fleet',
        url(host),
      );
  });

  it('asks the second server where the first is not there', () =>
    both(
      { 'fleet.shop.svc.cluster.local': '127.0.0.1' },
      { 'resolv.conf': `nameserver ${NO_DNS}\nnameserver ${DNS}\n${SEARCH}` },
      ({ status, errors }) => assert.deepEqual([status, errors], [0, '']),
      '--pod',
      'shop/web-1',
      '--fleet',
      url('fleet'),
    ));

  it('says that there is no such name, or that the server cannot tell, and asks again until its time is over', async () => {
    for (const [code, says] of [
      [3, 'ENOTFOUND'],
      [2, 'EAI_AGAIN'],
    ] as const)
      await both(
        { 'fleet.shop.svc.cluster.local': code },
        { 'resolv.conf': `nameserver ${DNS}\n${SEARCH}` },
        ({ status, errors }) =>
          assert.deepEqual(
            [status, errors],
            [1, `slicewire: the fleet at ${new URL(url('fleet')).host} does not answer: getaddrinfo ${says} fleet\n`],
          ),
        '--pod',
        'shop/web-1',
        '--timeout',
        '300ms',
        '--fleet',
        url('fleet'),
      );
  });
});
