/** Kernel settings that a mode needs: desired values, current values, and the writes that change them. */

import type { Family } from '../../base/address.ts';
import { type SettingWrite, type Sysctls, settingKey, writeSettings } from '../../kernel/sysctls.ts';
import { comparison, type Unlike } from '../reconcile/compare.ts';
import type { ApplyReport, FailedStep, Step, StepName } from '../reconcile/step.ts';
import { Tracker } from '../reconcile/tracker.ts';

export interface SettingsPlan {
  readonly steps: readonly Step[];
  readonly writes: readonly SettingWrite[];
}

export interface SettingsOptions {
  readonly sysctls: Sysctls;
  /** Undefined when they concern every family. */
  readonly family: Family | undefined;
  readonly wanted: ReadonlyMap<string, string>;
  /** Advice for the operator when a setting cannot be written. */
  readonly hint: string;
}

export class KernelSettings {
  readonly #options: SettingsOptions;
  readonly #values = new Tracker<string, string>((a, b) => a === b);

  constructor(options: SettingsOptions) {
    this.#options = options;
    for (const [name, value] of options.wanted) this.#values.desire(name, value);
  }

  /** Number of settings compared for plans. */
  get compared(): number {
    return this.#values.compared;
  }

  /** Read the desired settings. Throws when one exists and cannot be read. */
  async observe(): Promise<void> {
    this.#values.observe(await this.#read());
  }

  async #read(): Promise<ReadonlyMap<string, string>> {
    const read = new Map<string, string>();
    for (const name of this.#values.desired.keys()) {
      const value = await this.#options.sysctls.read(name);
      if (value !== undefined) read.set(name, value);
    }
    return read;
  }

  /** The settings now against the desired ones. Throws when one exists and cannot be read. */
  async compare(): Promise<Iterable<Unlike | undefined>> {
    return comparison({
      tracker: this.#values,
      found: await this.#read(),
      same: (a, b) => a === b,
      nameOf: (name) => settingKey(name),
      linesOf: (value) => [value],
      ownerOf: () => undefined,
    });
  }

  /** Throws when the settings were not read. */
  plan(): SettingsPlan {
    const { create, update } = this.#values.delta();
    const writes: SettingWrite[] = [];
    for (const [name, { from, to }] of update) writes.push({ name, from, to });
    for (const [name, to] of create) writes.push({ name, to });
    return { writes, steps: writes.map((write) => settingStep(this.#name(write.name), write)) };
  }

  /** Write the settings. Only a successful write changes the believed value (invariant 4). */
  async apply({ writes }: SettingsPlan): Promise<ApplyReport> {
    const problems = await writeSettings(writes, this.#options.sysctls);
    for (const { name, to } of writes) {
      if (!problems.some((problem) => problem.name === name)) this.#values.wrote(name, to);
    }
    const failed = problems.map(({ name, cause }): FailedStep => {
      const to = this.#options.wanted.get(name) ?? '';
      const text = `cannot write ${to} to /proc/sys/${name}: ${cause}; ${this.#options.hint}`;
      return { ...this.#name(name), owner: undefined, line: undefined, blame: 'environment', cause: text };
    });
    const applied = writes.length - failed.length;
    return { outcome: failed.length > 0 ? 'failed' : 'complete', applied, failed, skipped: [] };
  }

  #name(name: string): StepName {
    const { family } = this.#options;
    const key = settingKey(name);
    return { key: family === undefined ? key : `${family} ${key}`, family, kind: 'setting' };
  }
}

/** The step that writes a setting. */
export function settingStep(name: StepName, { from, to }: SettingWrite): Step {
  return {
    ...name,
    action: 'update',
    phase: 'sysctls and devices',
    owner: undefined,
    concerns: () => [],
    lines: () => [...(from === undefined ? [] : [`- ${from}`]), `+ ${to}`],
  };
}
