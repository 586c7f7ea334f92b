/** How the program says who it is. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import packageJson from '../../package.json' with { type: 'json' };
import { userAgent } from '../../src/config/program-version.ts';

describe('requests to the API server have a User-Agent', () => {
  for (const part of ['agent', 'controller', 'fleet'] as const) {
    it(part, () => {
      const platform = `linux/${process.arch === 'x64' ? 'amd64' : process.arch}`;
      assert.equal(userAgent(part), `slicewire/${packageJson.version} (${platform}) ${part}`);
    });
  }
});
