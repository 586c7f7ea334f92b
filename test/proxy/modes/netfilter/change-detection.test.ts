/** Which program is named for changes that only a reading of all rules shows. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { ChainProbe } from '../../../../src/kernel/chain-probe.ts';
import type { Commit } from '../../../../src/kernel/ruleset-notices.ts';
import { ChangeDetector, OwnWrites } from '../../../../src/proxy/modes/netfilter/change-detection.ts';

it('the program that flushed a table is named, and not the tool that wrote after it for us', async () => {
  const commits: Commit[] = [];
  let generation = 1;
  const wrote = (name: string) => {
    generation += 1;
    commits.push({ generation, port: generation, pid: generation, name, startedBy: undefined, tables: undefined });
  };
  const probe = {
    state: async () => ({ kind: 'ruleset', generation }) as const,
    commits: async (from: number, to: number) => commits.filter((one) => one.generation > from && one.generation <= to),
  } as unknown as ChainProbe;
  const detector = new ChangeDetector(probe, new OwnWrites(), (all) => (all.length === 0 ? [] : undefined));
  detector.recordBelieved(await detector.read());
  wrote('iptables-nft');
  wrote('iptables-nft-re');
  assert.equal(await detector.mayDiffer(), true);
  assert.equal(await detector.foreignWrites(), undefined, 'all must be read');
  assert.equal(detector.suspect?.name, 'iptables-nft');
  detector.recordBelieved(await detector.read());
  assert.equal(detector.suspect, undefined);
});
