/** Network namespaces in which the rich cluster's rules are written, and programs run beside them. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Cidr, FAMILIES, type Family } from '../../src/base/address.ts';
import { Namespaces } from '../../src/cli/lab/network.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import type { NftKernel } from '../../src/kernel/nftables-kernel.ts';
import { NftNetlink } from '../../src/kernel/nftables-netlink.ts';
import { nftablesMode } from '../../src/proxy/modes/nftables/index.ts';
import { nftablesSettingsOf } from '../conformance/nftables.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { FakeNft } from '../helpers/kernel/fake-nft.ts';
import { transportsIn } from '../helpers/kernel/namespace-sockets.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER, Rig } from '../helpers/proxy/rig.ts';
import type { Program } from './debian.ts';
import { richObjects, richSettings } from './rich-cluster.ts';

/** `ours` has rules of slicewire, `copy` what a program loads; `nft` and `legacy` have the rules of iptables mode in that variant. */
const PLACES = ['ours', 'copy', 'nft', 'legacy'] as const;
export type Place = (typeof PLACES)[number];
/** Nobody asks for an address of it. */
const SERVICE_CIDR: Readonly<Record<Family, Cidr>> = { IPv4: '10.97.0.0/16' as Cidr, IPv6: 'fd00:97::/64' as Cidr };

/** What became of a program. */
export interface Ran {
  /** undefined when a signal ended it. */
  readonly status: number | undefined;
  readonly out: string;
  readonly error: string;
}

export class Scene {
  readonly #namespaces = new Namespaces(shellCommands, NEVER);
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async create(): Promise<Scene> {
    const scene = new Scene(await mkdtemp(join(tmpdir(), 'slicewire-test-')));
    for (const place of PLACES) await scene.#namespaces.add(place);
    return scene;
  }

  async remove(): Promise<void> {
    await this.#namespaces.remove();
    await rm(this.#folder, { recursive: true });
  }

  /** File and arguments that run a program there. */
  inside(place: Place, [file, ...first]: Program, ...args: readonly string[]): { file: string; args: string[] } {
    return this.#namespaces.inside(place, file, [...first, ...args]);
  }

  async run(place: Place, program: Program, args: readonly string[]): Promise<Ran> {
    const { exitCode, stdout, stderr } = await realCommands.run(this.inside(place, program, ...args), NEVER);
    return { status: exitCode, out: stdout, error: stderr };
  }

  /** The same with a file of this content as the last argument. */
  async runFile(place: Place, program: Program, args: readonly string[], text: string): Promise<Ran> {
    const file = join(this.#folder, 'input');
    await writeFile(file, text);
    return await this.run(place, program, [...args, file]);
  }

  /** The same where it must succeed. Returns what it prints. */
  async done(place: Place, program: Program, ...args: readonly string[]): Promise<string> {
    const { status, out, error } = await this.run(place, program, args);
    assert.equal(status, 0, `${program.join(' ')} ${args.join(' ')}: ${error}`);
    return out;
  }

  /** Brings nftables mode's table up to date there, as an agent that starts. Returns the number of steps. */
  async writeTable(place: Place, countsConnections = true): Promise<number> {
    const kernel = new NftNetlink(transportsIn(this.#namespaces.name(place)));
    try {
      return await richTable(kernel, countsConnections);
    } finally {
      kernel.close();
    }
  }

  /** Brings the rules of iptables mode up to date there. Returns the number of steps. */
  writeIptables(variant: 'nft' | 'legacy'): Promise<number> {
    const commands: typeof realCommands = {
      run: (command, signal) =>
        realCommands.run({ ...command, ...this.inside(variant, [command.file], ...command.args) }, signal),
    };
    let steps = 0;
    const onPlan = (plan: { readonly steps: readonly unknown[] }) => (steps += plan.steps.length);
    return synced(new Rig({ commands, backend: variant, settings: richSettings, onPlan })).then(() => steps);
  }
}

/** Writes the table into a kernel. Returns the number of steps. */
export async function richTable(kernel: NftKernel, countsConnections: boolean): Promise<number> {
  const families = FAMILIES.map((family) => ({
    ...nftablesSettingsOf(family, richSettings(family)),
    serviceCidrs: [SERVICE_CIDR[family]],
    countsConnections,
  }));
  let steps = 0;
  const onPlan = (plan: { readonly steps: readonly unknown[] }) => (steps += plan.steps.length);
  await synced(new Rig({ commands: new FakeIptables(), mode: nftablesMode({ families, kernel }), onPlan }));
  return steps;
}

/** The rules of the table, in both families. */
export async function rulesOfTable(): Promise<number> {
  const kernel = new FakeNft();
  await richTable(kernel, true);
  const chains = [...kernel.tables.values()].flatMap((table) => [...table.chains.values()]);
  return chains.reduce((sum, { rules }) => sum + rules.length, 0);
}

async function synced(rig: Rig): Promise<void> {
  const { outcome, failed } = await rig.put(...FAMILIES.flatMap(richObjects)).sync();
  assert.deepEqual([outcome, failed, rig.faults], ['complete', [], []]);
}
