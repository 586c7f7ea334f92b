/** What an answer takes for the kernel while syncs go on. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { KernelLock } from '../../src/agent/agent.ts';
import { withWhatStands } from '../../src/agent/questions/explain-now.ts';

describe('what stands in the kernel', () => {
  it('is the memory when a sync ends, not what was read while it wrote', async () => {
    const kernelLock = new KernelLock();
    let isWriting = false;
    const inspection = {
      isCertain: async () => !isWriting,
      believed: () => [],
    };
    const read = async () => [{ family: 'IPv4' as const }];
    const { promise, resolve } = Promise.withResolvers<void>();
    const sync = kernelLock.sync(async () => {
      isWriting = true;
      await promise;
      isWriting = false;
    });
    const stands = withWhatStands({ mode: { inspection }, kernelLock, read }, async (views) => ({ views }));
    resolve();
    await sync;
    assert.deepEqual((await stands).views, []);
  });

  it('is read where another program may have written; after many syncs the memory counts again', async () => {
    const kernelLock = new KernelLock();
    let isCertain = false;
    let syncsLeft = 0;
    const inspection = {
      isCertain: async () => isCertain,
      believed: () => [],
    };
    const read = async () => {
      if (syncsLeft-- > 0) {
        void kernelLock.sync(async () => {
          isCertain = true;
        });
      }
      return [{ family: 'IPv4' as const }];
    };
    const ask = () => withWhatStands({ mode: { inspection }, kernelLock, read }, async (views) => ({ views }));
    assert.equal((await ask()).views.length, 1);
    syncsLeft = 1;
    assert.equal((await ask()).views.length, 0);
  });
});
