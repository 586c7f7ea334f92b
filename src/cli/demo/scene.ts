/** The state that the steps of the demo share. */
import type { ModeName } from '../../proxy/model/modes.ts';
import type { AgentProcess } from '../lab/agent-process.ts';
import type { Lab } from '../lab/lab.ts';

/** Milliseconds in which an agent must sync: the machine may be emulated. */
export const SYNC_TIMEOUT_MS = 60_000;

export interface Scene {
  readonly lab: Lab;
  readonly folder: string;
  readonly mode: ModeName;
  /** Start an agent in a mode; the one before must have been stopped. */
  readonly start: (mode: ModeName) => AgentProcess;
  /** The agent that runs now. */
  agent: AgentProcess;
}

export interface StepResult {
  readonly succeeded: boolean;
  readonly seen: string;
}

export interface DemoStep {
  readonly title: string;
  readonly run: (scene: Scene) => Promise<StepResult>;
}

/** Text, indented below its heading. */
export function indent(text: string): string {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => `    ${line}`)
    .join('\n');
}
