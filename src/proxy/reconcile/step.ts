/** A plan is a list of steps in the order of application. Each step prints itself; log, `plan` and tests share that text. */

/** The order of writes (invariant 5). */
const PHASES = [
  'sysctls and devices',
  'create addresses and sets',
  'create servers, destinations, chains and rules',
  'remove rules',
  'remove destinations and servers',
  'remove sets, chains and addresses',
  'stale conntrack flows',
] as const;
export type Phase = (typeof PHASES)[number];

/** The kind of kernel object that a step writes; `kernel`: no particular one, for example when the kernel could not be read. */
type StepKind = 'rules' | 'virtual servers' | 'device' | 'setting' | 'kernel';

/** The name of a step or a failure. */
export interface StepName {
  /** Unique in a plan, for example `IPv4 nat KUBE-SVC-…`. */
  readonly key: string;
  /** undefined when the step concerns the node, and so every family. */
  readonly family: 'IPv4' | 'IPv6' | undefined;
  readonly kind: StepKind;
}

export interface Step extends StepName {
  readonly action: 'create' | 'update' | 'remove';
  readonly phase: Phase;
  /** The Service that the written object belongs to; undefined for a shared object. */
  readonly owner: string | undefined;
  /** Services for which something new is written. */
  readonly concerns: () => Iterable<string>;
  /** The removed (`- …`) and added (`+ …`) lines, made when needed. */
  readonly lines: () => readonly string[];
}

export interface Plan {
  readonly steps: readonly Step[];
  /** More is pending than is planned: another plan follows this one. */
  readonly isPart?: boolean;
}

export interface FailedStep extends StepName {
  /** The Service that caused the failure, if it is known. */
  readonly owner: string | undefined;
  /** The refused line, if the tool named it. */
  readonly line: string | undefined;
  /** `content`: the data was refused. `environment`: nothing could be written, for example because a lock was held. */
  readonly blame: 'content' | 'environment';
  readonly cause: string;
}

/** A step that was not tried. */
export interface SkippedStep extends Pick<StepName, 'key' | 'family'> {
  /** The Service that waits; undefined for a shared object, for which many wait. */
  readonly owner: string | undefined;
  /** The step, or the refused Service, because of which it was not tried. */
  readonly blockedBy: string;
}

export interface ApplyReport {
  readonly outcome: 'complete' | 'partial' | 'failed';
  readonly applied: number;
  readonly failed: readonly FailedStep[];
  readonly skipped: readonly SkippedStep[];
}

export const NOTHING_TO_DO: ApplyReport = { outcome: 'complete', applied: 0, failed: [], skipped: [] };

/** The report of a write or a reading that failed as a whole, for a reason other than the content. */
export function failedReport({ key, family, kind }: StepName, cause: string): ApplyReport {
  const failed: FailedStep = { key, family, kind, owner: undefined, line: undefined, blame: 'environment', cause };
  return { outcome: 'failed', applied: 0, failed: [failed], skipped: [] };
}

const SIGN = { create: '+', update: '~', remove: '-' } as const;

/** A step as text: a head line, then its lines. */
export function stepText(step: Step): string {
  const owner = step.owner === undefined ? '' : `  (${step.owner})`;
  return [`${SIGN[step.action]} ${step.key}${owner}`, ...step.lines().map((line) => `    ${line}`)].join('\n');
}

/** A plan as text. The last line has the counts. */
export function planText(plan: Plan): string {
  return [...planTexts(plan)].join('\n');
}

/** The same by steps, each made when it is asked for. */
export function* planTexts({ steps }: Plan): Generator<string> {
  if (steps.length === 0) {
    yield 'nothing to do';
    return;
  }
  for (const step of steps) yield stepText(step);
  const count = (action: Step['action']) => steps.filter((step) => step.action === action).length;
  yield `${count('create')} to create, ${count('update')} to change, ${count('remove')} to remove`;
}

/** Merges the reports of independent parts (families, modes). */
export function mergeReports(reports: readonly ApplyReport[]): ApplyReport {
  const failed = reports.flatMap((report) => report.failed);
  const skipped = reports.flatMap((report) => report.skipped);
  const applied = reports.reduce((sum, report) => sum + report.applied, 0);
  const bad = reports.filter((report) => report.outcome !== 'complete').length;
  const allFailed = bad > 0 && reports.every((report) => report.outcome === 'failed');
  return { outcome: bad === 0 ? 'complete' : allFailed ? 'failed' : 'partial', applied, failed, skipped };
}

/** A value from the kernel, or the reason why it is unknown. Unknown is not empty (docs/architecture.md, invariant 2). */
export type Observed<T> =
  | { readonly kind: 'known'; readonly value: T }
  | { readonly kind: 'unknown'; readonly cause: string };
