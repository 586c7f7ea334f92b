/**
 * Counters of rules are kept when their chains are written anew (--service-metrics): a restore has the same lines as without the flag,
 * and beside each rule of a frontend that was there what it has counted.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { ChainProbe } from '../../../../src/kernel/chain-probe.ts';
import type { Command, CommandRunner } from '../../../../src/kernel/commands.ts';
import { IptablesTools } from '../../../../src/kernel/iptables-tools.ts';
import { iptablesMode } from '../../../../src/proxy/modes/iptables/index.ts';
import { aStep, type Step } from '../../../helpers/cluster/histories.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../../helpers/kernel/fake-iptables.ts';
import { defaultSettings, fakeSysctls, Rig } from '../../../helpers/proxy/rig.ts';

const RUNS = 120;
const COUNT = / -c (\d+) 0$/;
const FRONTEND =
  /^(-d \S+ )?-p (\w+) -m comment --comment "([^/"]+\/[^ :"]+).*--dport (\d+) -j KUBE-(?:SVC|SVL|EXT|FW)-/;

/** Address, protocol, Service and port of a rule that leads to a Service; undefined for any other rule. */
function frontendOf(text: string): string | undefined {
  return FRONTEND.exec(text)?.slice(1).join(' ');
}

/** A number for each frontend, never 0. */
function countedBy(frontend: string): number {
  return [...frontend].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 65_521, 7) + 1;
}

/** Counts as a kernel does, and hands the lines of a restore on without counters. */
class Counting implements CommandRunner {
  readonly kernel = new FakeIptables();
  readonly restores: string[][] = [];
  kept = 0;

  run({ input, ...command }: Command) {
    const lines = [...(input?.() ?? [])];
    if (!command.file.endsWith('-restore')) return this.kernel.run(command);
    const before = this.#frontends();
    let table = '';
    for (const line of lines) {
      if (line.startsWith('*')) table = line;
      const frontend = table === '*nat' ? frontendOf(line.replace(/^-A \S+ /, '')) : undefined;
      const expected = frontend !== undefined && before.has(frontend) ? String(countedBy(frontend)) : undefined;
      assert.equal(COUNT.exec(line)?.[1], expected, line);
      if (expected !== undefined) this.kept += 1;
    }
    const plain = lines.map((line) => line.replace(COUNT, ''));
    this.restores.push(plain);
    return this.kernel.run({ ...command, input: () => plain });
  }

  readonly probe: ChainProbe = {
    hasChain: ({ table, chain }) => Promise.resolve(this.kernel.kernels.IPv4.get(table)?.has(chain) === true),
    kernelCounters: ({ chain }) =>
      Promise.resolve(this.#rules(chain).map((rule) => countedBy(frontendOf(rule) ?? rule))),
  };

  #rules(chain: string): readonly string[] {
    return this.kernel.kernels.IPv4.get('nat')?.get(chain) ?? [];
  }

  #frontends(): Set<string> {
    const rules = [...(this.kernel.kernels.IPv4.get('nat')?.values() ?? [])].flat();
    return new Set(rules.flatMap((rule) => frontendOf(rule) ?? []));
  }
}

async function restoresOf(history: readonly Step[], commands: CommandRunner, keepsCounts: boolean, probe?: ChainProbe) {
  const tools = new IptablesTools(commands, 'IPv4', 'auto');
  const mode = iptablesMode([{ settings: defaultSettings('IPv4'), tools, probe, keepsCounts, sysctls: fakeSysctls() }]);
  const rig = new Rig({ commands, mode });
  for (const step of [...history, { kind: 'sync' } as const]) {
    if (step.kind === 'put') rig.put(step.object);
    else if (step.kind === 'remove') rig.remove(...(step.id.split(' ') as ['Service', string]));
    else assert.equal((await rig.sync()).outcome, 'complete');
  }
}

describe('counters that are kept', () => {
  it('change nothing else of any restore, and are those of the frontends', async () => {
    let kept = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(aStep, { minLength: 5, maxLength: 40, size: 'max' }), async (history) => {
        const [counting, plain] = [new Counting(), new FakeIptables()];
        await restoresOf(history, counting, true, counting.probe);
        await restoresOf(history, plain, false);
        const without = plain.ran.filter(({ file }) => file.endsWith('-restore')).map(({ lines }) => lines);
        assert.deepEqual(counting.restores, without);
        kept += counting.kept;
      }),
      { numRuns: RUNS },
    );
    assert.ok(kept > 10, `${kept} counters were kept`);
  });

  it('follow their frontends where leaves of a tree are divided and joined', async () => {
    const counting = new Counting();
    const steps: Step[] = [];
    const numbers = Array.from({ length: 120 }, (_, i) => i + 1);
    for (const i of numbers) {
      const name = `s${i}`;
      const spec = { type: 'NodePort', clusterIP: `10.96.${i % 3}.${i}`, ports: [{ port: 80, nodePort: 30_000 + i }] };
      steps.push({ kind: 'put', id: '', object: service({ name, spec }) });
      steps.push({ kind: 'put', id: '', object: slice({ name: `${name}-1`, service: name, endpoints: ['10.1.1.1'] }) });
      if (i % 5 === 0) steps.push({ kind: 'sync' });
    }
    for (const i of numbers) {
      steps.push({ kind: 'remove', id: `Service default/s${i}` });
      if (i % 5 === 0) steps.push({ kind: 'sync' });
    }
    await restoresOf(steps, counting, true, counting.probe);
    assert.ok(counting.kept > 300, `${counting.kept} counters were kept`);
    assert.ok(counting.restores.flat().some((line) => line.includes(' KUBE-DS')));
  });
});
