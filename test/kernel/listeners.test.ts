import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { endianness, tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { readListeners } from '../../src/kernel/listeners.ts';

const HEAD = '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode';

async function folderWith(tables: Readonly<Record<string, readonly string[]>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-listeners-'));
  for (const [name, lines] of Object.entries(tables)) {
    await writeFile(join(folder, name), [HEAD, ...lines, ''].join('\n'));
  }
  return folder;
}

/** An address as the kernel prints it on this machine. */
function printed(hex: string): string {
  const bytes = Buffer.from(hex, 'hex');
  if (endianness() === 'LE') bytes.swap32();
  return bytes.toString('hex').toUpperCase();
}

function line(address: string, port: number, state: string): string {
  const local = `${printed(address)}:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return `   0: ${local} ${'0'.repeat(address.length)}:0000 ${state} 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0`;
}

describe('ports in use', () => {
  test('are listening sockets, and unconnected sockets of UDP, of both families', async (t) => {
    const folder = await folderWith({
      tcp: [line('00000000', 22, '0A'), line('c0000207', 443, '0A'), line('c0000207', 50_000, '01')],
      tcp6: [line(`${'0'.repeat(32)}`, 10_250, '0A'), line(`${'0'.repeat(20)}ffffc0000208`, 6443, '0A')],
      udp: [line('c0000207', 40_000, '01'), line('00000000', 53, '07'), line('00000000', 0, '07')],
    });
    t.after(() => rm(folder, { recursive: true }));
    assert.deepEqual(
      (await readListeners(folder)).map(({ protocol, address, port }) => `${protocol} ${address} ${port}`),
      ['TCP 0.0.0.0 22', 'TCP 192.0.2.7 443', 'TCP :: 10250', 'TCP 192.0.2.8 6443', 'UDP 0.0.0.0 53'],
    );
  });

  test('are unknown, not none, when a table cannot be read', async (t) => {
    const folder = await folderWith({ tcp: [] });
    t.after(() => rm(folder, { recursive: true }));
    await assert.rejects(readListeners(folder), { code: 'ENOENT' });
  });

  test('are those of this node', async (t) => {
    const server: Server = createServer().listen(0, '127.0.0.1');
    const socket = createSocket('udp4').bind(0, '127.0.0.1');
    t.after(() => {
      server.close();
      socket.close();
    });
    await Promise.all([once(server, 'listening'), once(socket, 'listening')]);
    const { port } = server.address() as { port: number };
    const found = await readListeners();
    assert.ok(found.some((one) => one.protocol === 'TCP' && one.address === '127.0.0.1' && one.port === port));
    const udp = socket.address().port;
    assert.ok(found.some((one) => one.protocol === 'UDP' && one.address === '127.0.0.1' && one.port === udp));
  });
});
