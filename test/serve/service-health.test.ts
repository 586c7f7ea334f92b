/** The servers of health check ports (docs/semantics.md 9.5), with real sockets on loopback. */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { Address, Family } from '../../src/model/address.ts';
import type { ServicePort } from '../../src/model/service-port.ts';
import { openServer } from '../../src/serve/http.ts';
import { ServiceHealth } from '../../src/serve/service-health.ts';

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

describe('health check ports of Services', () => {
  const failures: string[] = [];
  let asked = 0;
  let isHealthy = true;
  let health: ServiceHealth;
  beforeEach(() => {
    health = new ServiceHealth({
      open: openServer,
      isHealthy: () => isHealthy,
      addresses: (family) => {
        asked += 1;
        return Promise.resolve([LOOPBACK[family]]);
      },
      onFailure: (service, at, cause) => failures.push(`${service} ${at} ${cause}`),
    });
  });
  afterEach(async () => {
    await health.close();
    failures.length = 0;
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
    await health.sync();
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
    await health.sync();
    assert.deepEqual([(await ask())?.status, (await ask())?.weight], [503, '0']);
    health.update(new Map([['default/web:http', undefined]]));
    await health.sync();
    assert.equal(await ask(), undefined);
  });

  it('move with the Service’s port, and to another Service', async () => {
    health.update(new Map([port({ key: 'default/web:http', readyLocal: ready('10.0.0.1') })]));
    await health.sync();
    health.update(
      new Map([port({ key: 'default/web:http', readyLocal: ready('10.0.0.1'), healthCheckNodePort: PORT + 1 })]),
    );
    health.update(new Map([port({ key: 'other/b:http' })]));
    await health.sync();
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
    await health.sync();
    assert.deepEqual([(await ask())?.weight, (await ask('[::1]'))?.weight], ['1', '2']);
  });

  it('that another program holds are reported, and opened as soon as they are free', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(PORT, '127.0.0.1', resolve));
    health.update(new Map([port({ key: 'default/web:http' })]));
    await health.sync();
    assert.match(failures.join(), /^default\/web 32111 .*EADDRINUSE/);
    await new Promise((resolve) => other.close(resolve));
    await health.sync();
    assert.equal((await ask())?.status, 503);
  });

  it('are many, and each sync asks once a family where to listen', async () => {
    const many = Array.from({ length: 20 }, (_, i) =>
      port({ key: `default/s${i}:http`, healthCheckNodePort: PORT + i, readyLocal: ready('10.0.0.1') }),
    );
    health.update(new Map(many));
    asked = 0;
    await health.sync();
    await health.sync();
    assert.equal(asked, 4);
    assert.equal((await ask('127.0.0.1', PORT + 19))?.status, 200);
  });

  it('go on while all ServicePorts are reported again, and close where one is missing', async () => {
    health.update(new Map([port({ key: 'default/web:http', readyLocal: ready('10.0.0.1') })]));
    health.update(new Map([port({ key: 'default/old:http', healthCheckNodePort: PORT + 1 })]));
    await health.sync();
    health.renew();
    assert.equal((await ask())?.status, 200);
    health.update(new Map([port({ key: 'default/web:http', readyLocal: ready('10.0.0.1', '10.0.0.3') })]));
    await health.sync();
    assert.equal((await ask())?.weight, '2');
    assert.equal(await ask('127.0.0.1', PORT + 1), undefined);
  });

  it('open no more after the end, also where a sync ends later', async () => {
    await health.close();
    health.update(new Map([port({ key: 'default/web:http', readyLocal: ready('10.0.0.1') })]));
    await health.sync();
    assert.equal(await ask(), undefined);
  });
});
