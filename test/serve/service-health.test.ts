/** The servers of health check ports (docs/semantics.md 9.5), with real sockets on loopback. */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { Address, Family } from '../../src/base/address.ts';
import type { ServicePort } from '../../src/proxy/model/service-port.ts';
import { openServer } from '../../src/serve/http.ts';
import { type IsWritten, ServiceHealth } from '../../src/serve/service-health.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { until } from '../helpers/base/until.ts';

const PORT = 32_111;
const LOOPBACK: Readonly<Record<Family, Address>> = { IPv4: '127.0.0.1' as Address, IPv6: '::1' as Address };

function port(over: Partial<ServicePort> & { readonly key: string }): readonly [string, ServicePort] {
  const [service = ''] = over.key.split(':');
  const full = {
    service,
    family: 'IPv4',
    healthCheckNodePort: PORT,
    readyLocal: [],
    ...over,
  } as unknown as ServicePort;
  return [over.key, full];
}

const ready = (...addresses: string[]) => addresses as Address[];
const ALL: IsWritten = () => true;
const NONE: IsWritten = () => false;

describe('health check ports of Services', () => {
  const clock = new FakeClock();
  const failures: string[] = [];
  const ends: string[] = [];
  let asked = 0;
  let canAsk = true;
  let failedAsks = 0;
  let isHealthy = true;
  let health: ServiceHealth;
  /** The addresses that slices list as ready, by Service; undefined: all that the model has. */
  const listed = new Map<string, readonly Address[]>();
  let isLookedUp = 0;
  const everything = new Set(['10.0.0.1', '10.0.0.2', '10.0.0.3', 'fd00::1', 'fd00::2'] as Address[]);
  beforeEach(() => {
    health = new ServiceHealth({
      open: openServer,
      isHealthy: () => isHealthy,
      addresses: (family) => {
        asked += 1;
        if (!canAsk) {
          failedAsks += 1;
          return Promise.reject(new Error('recv: ENOBUFS'));
        }
        return Promise.resolve([LOOPBACK[family]]);
      },
      slices: {
        versionOf: (service) => listed.get(service),
        readyOf(service) {
          isLookedUp += 1;
          const there = listed.get(service);
          return there === undefined ? everything : new Set(there);
        },
      },
      clock,
      onFailure: (service, at, cause) => failures.push(`${service} ${at} ${cause}`),
      onEnd: (service, at, address, isBound) => ends.push(`${service} ${at} ${address} ${isBound}`),
    });
  });
  afterEach(async () => {
    await health.close();
    failures.length = 0;
    ends.length = 0;
    listed.clear();
    isHealthy = true;
  });

  async function ask(
    address = '127.0.0.1',
    at = PORT,
  ): Promise<{ status: number; weight: string | null; body: string } | undefined> {
    try {
      const answer = await fetch(`http://${address}:${at}/any/path`, { headers: { connection: 'close' } });
      const weight = answer.headers.get('x-load-balancing-endpoint-weight');
      assert.equal(answer.headers.get('content-type'), 'application/json');
      assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
      return { status: answer.status, weight, body: await answer.text() };
    } catch {
      return undefined;
    }
  }

  it('count distinct addresses over all ports of the Service, and answer kube-proxy’s body', async () => {
    health.update(
      new Map([
        port({ key: 'default/web:http', readyLocal: ready('10.0.0.1', '10.0.0.2') }),
        port({ key: 'default/web:https', readyLocal: ready('10.0.0.2') }),
      ]),
    );
    assert.equal(await ask(), undefined, 'not before the rules are written');
    await health.sync(ALL);
    assert.deepEqual(await ask(), {
      status: 200,
      weight: '2',
      body: '{\n\t"service": {\n\t\t"namespace": "default",\n\t\t"name": "web"\n\t},\n\t"localEndpoints": 2,\n\t"serviceProxyHealthy": true\n}',
    });
    isHealthy = false;
    assert.deepEqual([(await ask())?.status, (await ask())?.weight], [503, '2']);
  });

  it('answer 503 without an endpoint here, and are closed with the Service', async () => {
    health.update(new Map([port({ key: 'default/web:http' })]));
    await health.sync(ALL);
    assert.deepEqual([(await ask())?.status, (await ask())?.weight], [503, '0']);
    health.update(new Map([['default/web:http', undefined]]));
    await health.sync(ALL);
    assert.equal(await ask(), undefined);
  });

  it('move with the Service’s port, and to another Service', async () => {
    health.update(new Map([port({ key: 'default/web:http', readyLocal: ready('10.0.0.1') })]));
    await health.sync(ALL);
    health.update(
      new Map([port({ key: 'default/web:http', readyLocal: ready('10.0.0.1'), healthCheckNodePort: PORT + 1 })]),
    );
    health.update(new Map([port({ key: 'other/b:http' })]));
    await health.sync(ALL);
    assert.equal((await ask('127.0.0.1', PORT + 1))?.status, 200);
    assert.match((await ask())?.body ?? '', /"other"/);
  });

  it('are of each family by itself', async () => {
    health.update(
      new Map([
        port({ key: 'default/web:4', readyLocal: ready('10.0.0.1') }),
        port({ key: 'default/web:6', family: 'IPv6', readyLocal: ready('fd00::1', 'fd00::2') }),
      ]),
    );
    await health.sync(ALL);
    assert.deepEqual([(await ask())?.weight, (await ask('[::1]'))?.weight], ['1', '2']);
  });

  it('that another program holds are reported, and opened as soon as they are free', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(PORT, '127.0.0.1', resolve));
    health.update(new Map([port({ key: 'default/web:http' })]));
    await health.sync(ALL);
    assert.match(failures.join(), /^default\/web 32111 .*EADDRINUSE/);
    await new Promise((resolve) => other.close(resolve));
    await health.sync(ALL);
    assert.equal((await ask())?.status, 503);
    assert.deepEqual(ends, ['default/web 32111 127.0.0.1 true']);
  });

  it('that another program held are opened without a sync, though the addresses of the node cannot be asked for once', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(PORT, '127.0.0.1', resolve));
    health.update(new Map([port({ key: 'default/web:http' })]));
    await health.sync(ALL);
    await new Promise((resolve) => other.close(resolve));
    canAsk = false;
    clock.advance(5000);
    await until('the failed try', async () => failedAsks > 0);
    canAsk = true;
    await until('the port is served', async () => {
      clock.advance(5000);
      return ends.length > 0;
    });
    assert.equal((await ask())?.status, 503);
  });

  it('are served without another sync, where the addresses of the node could not be asked for', async () => {
    canAsk = false;
    health.update(new Map([port({ key: 'default/web:http' })]));
    await assert.rejects(health.sync(ALL), /ENOBUFS/);
    canAsk = true;
    clock.advance(5000);
    await until('the port is served', async () => (await ask())?.status === 503);
  });

  it('that another program holds until they are wanted no more end without having been bound', async (test) => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(PORT, '127.0.0.1', resolve));
    test.after(() => void other.close());
    health.update(new Map([port({ key: 'default/web:http' })]));
    await health.sync(ALL);
    await health.sync(ALL);
    assert.deepEqual([failures.length, ends.length], [2, 0]);
    health.update(new Map([['default/web:http', undefined]]));
    await health.sync(ALL);
    await health.sync(ALL);
    assert.deepEqual(ends, ['default/web 32111 127.0.0.1 false']);
  });

  it('are many, and each sync asks once a family where to listen', async () => {
    const many = Array.from({ length: 20 }, (_, i) =>
      port({ key: `default/s${i}:http`, healthCheckNodePort: PORT + i, readyLocal: ready('10.0.0.1') }),
    );
    health.update(new Map(many));
    asked = 0;
    await health.sync(ALL);
    await health.sync(ALL);
    assert.equal(asked, 4);
    assert.equal((await ask('127.0.0.1', PORT + 19))?.status, 200);
  });

  it('go on while all ServicePorts are reported again, and close where one is gone', async () => {
    health.update(new Map([port({ key: 'default/web:http', readyLocal: ready('10.0.0.1') })]));
    health.update(new Map([port({ key: 'default/old:http', healthCheckNodePort: PORT + 1 })]));
    await health.sync(ALL);
    assert.equal((await ask())?.status, 200);
    health.update(new Map([port({ key: 'default/web:http', readyLocal: ready('10.0.0.1', '10.0.0.3') })]));
    assert.equal((await ask('127.0.0.1', PORT + 1))?.status, 503, 'it is open until the next generation has written');
    health.update(new Map([['default/old:http', undefined]]));
    await health.sync(ALL);
    assert.equal((await ask())?.weight, '2');
    assert.equal(await ask('127.0.0.1', PORT + 1), undefined);
  });

  const weight = async (address?: string) => {
    const answer = await ask(address);
    return `${answer?.status} ${answer?.weight}`;
  };
  const web = (over: Partial<ServicePort> = {}) => health.update(new Map([port({ key: 'default/web:http', ...over })]));

  it('count an endpoint only after the write that has its rules, from none and from some', async () => {
    web();
    await health.sync(ALL);
    assert.equal(await weight(), '503 0');
    web({ readyLocal: ready('10.0.0.1') });
    assert.equal(await weight(), '503 0', 'not written yet');
    await health.sync(NONE);
    assert.equal(await weight(), '503 0', 'the write failed');
    await health.sync(ALL);
    assert.equal(await weight(), '200 1', 'without another change');
    web({ readyLocal: ready('10.0.0.1', '10.0.0.2') });
    assert.equal(await weight(), '200 1');
    await health.sync(ALL);
    assert.equal(await weight(), '200 2');
    // Another one in the place of the only one.
    web({ readyLocal: ready('10.0.0.3') });
    assert.equal(await weight(), '503 0');
    await health.sync(ALL);
    assert.equal(await weight(), '200 1');
  });

  it('open with nothing where the Service could not be written', async () => {
    web({ readyLocal: ready('10.0.0.1') });
    await health.sync(NONE);
    assert.equal(await weight(), '503 0');
    await health.sync(ALL);
    assert.equal(await weight(), '200 1');
  });

  it('forget an endpoint at once, and count it as new when it comes back', async () => {
    web({ readyLocal: ready('10.0.0.1', '10.0.0.2') });
    await health.sync(ALL);
    web({ readyLocal: ready('10.0.0.2') });
    assert.equal(await weight(), '200 1');
    await health.sync(NONE);
    // Perhaps the write that failed took it out of the rules.
    web({ readyLocal: ready('10.0.0.1', '10.0.0.2') });
    assert.equal(await weight(), '200 1');
    await health.sync(ALL);
    assert.equal(await weight(), '200 2');
  });

  it('forget an endpoint that slices no longer have as ready, before a sync takes that', async () => {
    listed.set('default/web', ready('10.0.0.1', '10.0.0.2'));
    web({ readyLocal: ready('10.0.0.1', '10.0.0.2') });
    await health.sync(ALL);
    assert.equal(await weight(), '200 2');
    listed.set('default/web', ready('10.0.0.2', '10.0.0.3'));
    assert.equal(await weight(), '200 1');
    listed.set('default/web', []);
    isLookedUp = 0;
    for (let i = 0; i < 3; i++) assert.equal(await weight(), '503 0');
    assert.equal(isLookedUp, 1, 'slices are read again only when they change');
    // The rules had it all the time.
    listed.set('default/web', ready('10.0.0.1'));
    assert.equal(await weight(), '200 1');
  });

  it('grow for the Services and families that a partial sync wrote, and stay for the others', async () => {
    const both = (...addresses: string[]) =>
      health.update(
        new Map([
          port({ key: 'default/web:4', readyLocal: ready('10.0.0.1', ...addresses) }),
          port({ key: 'default/web:6', family: 'IPv6', readyLocal: ready('fd00::1', 'fd00::2') }),
          port({ key: 'other/b:4', healthCheckNodePort: PORT + 1, readyLocal: ready('10.0.0.3', ...addresses) }),
        ]),
      );
    both();
    await health.sync((service, family) => service === 'default/web' && family === 'IPv4');
    const weights = async () => [await weight(), await weight('[::1]'), (await ask('127.0.0.1', PORT + 1))?.weight];
    assert.deepEqual(await weights(), ['200 1', '503 0', '0']);
    await health.sync((service) => service === 'default/web');
    assert.deepEqual(await weights(), ['200 1', '200 2', '0']);
    await health.sync(ALL);
    both('10.0.0.2');
    await health.sync((service) => service === 'other/b');
    assert.deepEqual(await weights(), ['200 1', '200 2', '2']);
  });

  it('neither drop nor grow early while all ServicePorts are reported again', async () => {
    listed.set('default/web', ready('10.0.0.1'));
    web({ readyLocal: ready('10.0.0.1') });
    await health.sync(ALL);
    assert.equal(await weight(), '200 1');
    health.slicesReplaced();
    assert.equal(await weight(), '200 1');
    web({ readyLocal: ready('10.0.0.1', '10.0.0.2') });
    listed.set('default/web', ready('10.0.0.1', '10.0.0.2'));
    assert.equal(await weight(), '200 1');
    await health.sync(NONE);
    assert.equal(await weight(), '200 1');
    // Another port number keeps what is written.
    web({ readyLocal: ready('10.0.0.1', '10.0.0.2'), healthCheckNodePort: PORT + 1 });
    await health.sync(NONE);
    assert.equal((await ask('127.0.0.1', PORT + 1))?.weight, '1');
    await health.sync(ALL);
    assert.equal((await ask('127.0.0.1', PORT + 1))?.weight, '2');
  });

  it('count a Service that is deleted and made again as new', async () => {
    web({ readyLocal: ready('10.0.0.1') });
    await health.sync(ALL);
    health.update(new Map([['default/web:http', undefined]]));
    web({ readyLocal: ready('10.0.0.1') });
    assert.equal(await weight(), '503 0');
    await health.sync(ALL);
    assert.equal(await weight(), '200 1');
  });

  it('open no more after the end, also where a sync ends later', async () => {
    await health.close();
    health.update(new Map([port({ key: 'default/web:http', readyLocal: ready('10.0.0.1') })]));
    await health.sync(ALL);
    assert.equal(await ask(), undefined);
  });
});
