import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { AF_UNIX, bind, close, receive, SOCK_DGRAM, SystemError, socket } from '../../native/libc.ts';
import { notify, unixAddress } from '../../native/notify.ts';

describe('notify', () => {
  for (const abstract of [false, true]) {
    it(`reaches a socket ${abstract ? 'in the abstract namespace' : 'in the file system'}`, async () => {
      const folder = await mkdtemp(join(tmpdir(), 'slicewire-notify-'));
      const path = abstract ? `@slicewire-test-${process.pid}` : join(folder, 'notify');
      const descriptor = socket(AF_UNIX, SOCK_DGRAM, 0);
      try {
        bind(descriptor, unixAddress(path));
        notify(path, 'READY=1', 'STATUS=synced');
        const buffer = Buffer.alloc(100);
        assert.equal(buffer.toString('utf8', 0, receive(descriptor, buffer)), 'READY=1\nSTATUS=synced');
        assert.throws(() => receive(descriptor, buffer), /recv: EAGAIN/);
      } finally {
        close(descriptor);
        await rm(folder, { recursive: true });
      }
    });
  }

  it('throws the error with its name', () => {
    const isNoFile = (error: unknown) =>
      error instanceof SystemError && error.errno === 2 && /^sendto: ENOENT/.test(error.message);
    assert.throws(() => notify('/no/such/socket', 'READY=1'), isNoFile);
    assert.throws(() => close(123_456), /close: EBADF/);
    assert.throws(() => notify(`/${'x'.repeat(200)}`, 'READY=1'), RangeError);
  });
});
