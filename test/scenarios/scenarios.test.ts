/**
 * Scenarios: manifests over time, the plan as a person reads it. Each runs twice: as it is, and with one write in ten
 * failing; both must end in the same kernel. `UPDATE_PLANS=1` writes the plans anew, to be read before they are kept.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { faultText } from '../../src/proxy/model/objects.ts';
import { planText } from '../../src/proxy/reconcile/step.ts';
import { Random } from '../helpers/base/random.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { NEVER, Rig } from '../helpers/proxy/rig.ts';
import { readScenario, type ScenarioStep } from './scenario.ts';

const HERE = new URL('./', import.meta.url);
const MAX_TRIES = 200;

for (const file of readdirSync(HERE).filter((name) => name.endsWith('.scenario'))) {
  const name = file.replace('.scenario', '');
  const steps = readScenario(readFileSync(new URL(file, HERE), 'utf8'));
  const planFile = new URL(`${name}.plan`, HERE);

  describe(`scenario ${name}`, () => {
    it('plans what a person expects', async () => {
      const text = await tellPlans(steps);
      if (process.env.UPDATE_PLANS === '1') writeFileSync(planFile, text);
      assert.equal(text, readFileSync(planFile, 'utf8'));
    });

    it('ends in the same kernel when one write in ten fails', async () => {
      const right = await endState(steps, () => false);
      for (let seed = 1; seed <= 20; seed++) {
        const random = new Random(seed).next;
        assert.equal(await endState(steps, () => random() < 0.1), right, `seed ${seed}`);
      }
    });
  });
}

function take(rig: Rig, step: ScenarioStep): void {
  rig.put(...step.objects);
  for (const { kind, key } of step.removed) rig.remove(kind, key);
}

async function tellPlans(steps: readonly ScenarioStep[]): Promise<string> {
  const rig = new Rig({ commands: new FakeIptables(), families: ['IPv4'] });
  // What is there on every node is planned and written first, so that the plans tell the scenario alone.
  await rig.sync();
  const told: string[] = [];
  for (const step of steps) {
    const faultsBefore = rig.faults.length;
    take(rig, step);
    const { plan } = await rig.loop.plan(NEVER);
    const faults = rig.faults.slice(faultsBefore).map((fault) => `! ${faultText(fault)}\n`);
    told.push(`== ${step.title}\n${faults.join('')}${planText(plan)}\n`);
    assert.equal((await rig.sync()).outcome, 'complete');
  }
  return told.join('\n');
}

/** Sync after each step until it is complete; `fails` decides of each write. */
async function endState(steps: readonly ScenarioStep[], fails: () => boolean): Promise<string> {
  const kernel = new FakeIptables({
    intercept: ({ file }) =>
      file.endsWith('-restore') && fails()
        ? { exitCode: 4, stdout: '', stderr: 'Another app is currently holding the xtables lock' }
        : undefined,
  });
  const rig = new Rig({ commands: kernel, families: ['IPv4'] });
  for (const step of steps) {
    take(rig, step);
    let tries = 0;
    while ((await rig.sync()).outcome !== 'complete') assert.ok(++tries < MAX_TRIES, 'a sync never completes');
  }
  return kernel.save('IPv4').split('\n').sort().join('\n');
}
