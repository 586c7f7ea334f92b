/** Ports of the agent that cannot be bound, in the log. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { NodeEvents } from '../../src/agent/node-events.ts';
import { Servers, type ServersOptions } from '../../src/agent/servers.ts';
import type { Address } from '../../src/base/address.ts';
import type { Config } from '../../src/config/config.ts';
import type { ServicePort } from '../../src/proxy/model/service-port.ts';
import { logInto } from '../../src/telemetry/log.ts';

const KEY = 'default/web:http';
const ADDRESSES = ['192.0.2.1', '192.0.2.2'] as Address[];

describe('a health check port that cannot be bound', () => {
  it('is told for each address when it begins, when it is over, and when it begins again', async () => {
    const lines: string[] = [];
    const write = (line: string) => {
      const { level, msg, address } = JSON.parse(line);
      lines.push(`${level} ${address} ${msg}`);
    };
    const held = new Set<Address>();
    const options: Partial<ServersOptions> = {
      open({ address }) {
        if (held.has(address)) return Promise.reject(new Error(`EADDRINUSE ${address}`));
        return Promise.resolve({ close: () => Promise.resolve() });
      },
      log: logInto({ write }),
      signal: new AbortController().signal,
      events: { emitUnserved: () => undefined } as unknown as NodeEvents,
      isHealthy: () => true,
      listenAddresses: (family) => Promise.resolve(family === 'IPv4' ? ADDRESSES : []),
      slices: { versionOf: () => undefined, readyOf: () => new Set() },
    };
    const servers = new Servers(options as ServersOptions);
    const port = { service: 'default/web', family: 'IPv4', healthCheckNodePort: 32_000, readyLocal: [] };
    const set = async (isThere: boolean) => {
      servers.update(new Map([[KEY, isThere ? (port as unknown as ServicePort) : undefined]]) as never);
      await servers.sync(() => true);
    };
    const failed = ADDRESSES.map(
      (address) =>
        `error ${address} Service default/web: the health check port 32000 cannot be served: EADDRINUSE ${address}; trying again`,
    );
    const served = ADDRESSES.map(
      (address) => `info ${address} Service default/web: the health check port 32000 is served on ${address} now`,
    );
    for (const address of ADDRESSES) held.add(address);
    for (let n = 0; n < 3; n++) await set(true);
    assert.deepEqual(lines.splice(0), failed, 'once');
    held.clear();
    await set(true);
    await set(true);
    assert.deepEqual(lines.splice(0), served);
    await set(false);
    for (const address of ADDRESSES) held.add(address);
    await set(true);
    assert.deepEqual(lines.splice(0), failed, 'the second fault');
    await set(false);
    await set(true);
    assert.deepEqual(lines.splice(0), failed, 'the Service was gone meanwhile');
    await servers.close();
  });
});

describe('the servers of an agent that ends', () => {
  it('are closed when it has ended, also one that was still being opened', async () => {
    let open = 0;
    const opening = Promise.withResolvers<void>();
    const options: Partial<ServersOptions> = {
      async open() {
        await opening.promise;
        open += 1;
        return {
          async close() {
            open -= 1;
          },
        };
      },
      log: logInto({ write: () => undefined }),
      signal: new AbortController().signal,
      handlers: { healthz: () => assert.fail(), metrics: () => assert.fail(), scrape: () => assert.fail() },
    };
    const servers = new Servers(options as ServersOptions);
    const listen = { address: ADDRESSES[0], port: 10_256, text: 'a:10256' };
    servers.listen({ serve: { hardFail: false, healthz: listen } } as unknown as Config);
    await pause(1);
    const closed = servers.close();
    let isClosed = false;
    void closed.then(() => (isClosed = true));
    await pause(10);
    assert.equal(isClosed, false);
    opening.resolve();
    await closed;
    assert.equal(open, 0);
  });
});
