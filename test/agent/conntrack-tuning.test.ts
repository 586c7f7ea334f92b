/** The settings of conntrack at the start of the agent. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { tuneConntrack } from '../../src/agent/conntrack-tuning.ts';
import { type Platform, realPlatform } from '../../src/agent/platform.ts';
import type { Config } from '../../src/config/config.ts';
import { configFromFlags } from '../../src/config/from-flags.ts';

const ESTABLISHED = 'net/netfilter/nf_conntrack_tcp_timeout_established';

/** A kernel whose module of conntrack is loaded by the first question about connections, or is missing. */
class FreshKernel {
  readonly values = new Map<string, string>();
  questions = 0;
  readonly #hasModule: boolean;

  constructor({ hasModule = true } = {}) {
    this.#hasModule = hasModule;
  }

  load(): void {
    for (const name of [
      'nf_conntrack_max',
      'nf_conntrack_tcp_timeout_established',
      'nf_conntrack_tcp_timeout_close_wait',
    ])
      this.values.set(`net/netfilter/${name}`, '432000');
  }

  get platform(): Platform {
    const settings = {
      read: async (name: string) => this.values.get(name),
      write: async (name: string, value: string) => void this.values.set(name, value),
      whyNotWritable: async (name: string) => (this.values.has(name) ? undefined : 'this kernel has no such setting'),
      isReadOnly: async () => false,
    };
    const openFlowTable: Platform['kernel']['openFlowTable'] = async () => {
      this.questions += 1;
      if (!this.#hasModule) throw new Error('EOPNOTSUPP');
      this.load();
      return { ...NO_FLOWS };
    };
    return { ...realPlatform, kernel: { ...realPlatform.kernel, settings, openFlowTable } };
  }
}

function* nothing() {
  yield [];
  return false;
}

const NO_FLOWS = {
  udpFlows: nothing,
  openings: nothing,
  translated: nothing,
  unanswered: nothing,
  entries: nothing,
  delete: () => 0,
  close: () => undefined,
};

async function tuned(kernel: FreshKernel): Promise<string[]> {
  const said: string[] = [];
  const line = (_: unknown, text?: string) => void said.push(text ?? String(_));
  const log = { info: line, warn: line, error: line, debug: () => undefined };
  const config: Config = configFromFlags({ manifests: '/nowhere', conntrackMaxPerCore: '0' });
  await tuneConntrack(config, log as never, { platform: kernel.platform });
  return said;
}

describe('the settings of conntrack', () => {
  it('are written where the kernel loads conntrack only when it is asked for connections', async () => {
    const kernel = new FreshKernel();
    const said = await tuned(kernel);
    assert.equal(kernel.values.get(ESTABLISHED), '86400');
    assert.deepEqual(
      said.filter((line) => line.includes('cannot be changed')),
      [],
    );
  });

  it('ask nothing where conntrack is there', async () => {
    const kernel = new FreshKernel();
    kernel.load();
    await tuned(kernel);
    assert.equal(kernel.questions, 0);
    assert.equal(kernel.values.get(ESTABLISHED), '86400');
  });

  it('are named where the kernel has no conntrack', async () => {
    const said = await tuned(new FreshKernel({ hasModule: false }));
    assert.equal(said.filter((line) => line.includes('this kernel has no such setting')).length, 2);
  });
});
