/** A kernel setting as a step of a plan. */
import type { Step, StepName } from './step.ts';

/** A kernel setting to write. */
export interface SettingWrite {
  /** With slashes, as under /proc/sys. */
  readonly name: string;
  /** The current value; undefined when it is unknown. */
  readonly from?: string | undefined;
  readonly to: string;
}

/** `sysctl net.ipv4.ip_forward`, the name of sysctl(8); the path for a file elsewhere. */
export function settingKey(name: string): string {
  return name.startsWith('/') ? name : `sysctl ${name.replaceAll('/', '.')}`;
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
