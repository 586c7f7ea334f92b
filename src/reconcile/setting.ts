/** A kernel setting as a step of a plan. */
import type { Step, StepName } from './step.ts';

export interface SettingWrite {
  /** With slashes, as under /proc/sys. */
  readonly name: string;
  readonly from?: string | undefined;
  readonly to: string;
}

/** `sysctl net.ipv4.ip_forward`, as in sysctl(8); the path for a file outside /proc/sys. */
export function settingKey(name: string): string {
  return name.startsWith('/') ? name : `sysctl ${name.replaceAll('/', '.')}`;
}

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
