/** The writes of a plan as steps: one step for each kernel object. Pure. */
import type { Phase, Step, StepName } from '../../reconcile/step.ts';
import { destinationText, serverKey, serverText } from './objects.ts';
import type { ServersState } from './state.ts';
import type { PlannedResize, PlannedWrite, StagedWrites } from './writes.ts';

/** The writes to one kernel object. */
interface StepDraft {
  readonly phase: Phase;
  readonly come: (PlannedWrite | PlannedResize)[];
  readonly go: (() => string)[];
  owner: string | undefined;
  isNew: boolean;
  isGone: boolean;
}

const SETS: Phase = 'create addresses and sets';
const SERVERS: Phase = 'create servers, destinations, chains and rules';

export function stepsOf(state: ServersState, parts: StagedWrites): Step[] {
  const drafts = new Map<string, StepDraft>();
  const draft = (key: string, phase: Phase): StepDraft => {
    const known = drafts.get(key);
    if (known !== undefined) return known;
    const made: StepDraft = { phase, come: [], go: [], owner: undefined, isNew: false, isGone: false };
    drafts.set(key, made);
    return made;
  };
  for (const { step } of parts.sets) draft(step, SETS).isNew = true;
  for (const planned of [...parts.resizes, ...parts.entries, ...parts.stops])
    draft(planned.step, SETS).come.push(planned);
  for (const planned of parts.servers) {
    const server = draft(planned.step, SERVERS);
    server.come.push(planned);
    server.owner ??= planned.owner;
    if (planned.write.kind === 'add-server') server.isNew = true;
  }
  for (const planned of parts.addresses) draft(planned.step, SETS).come.push(planned);
  for (const one of parts.retire) {
    const server = draft(one.step, 'remove destinations and servers');
    server.owner ??= one.owner;
    server.isGone = one.isServerGone;
    for (const gone of one.destinations) server.go.push(() => `-d ${destinationText(gone)}`);
    const known = state.servers.applied?.get(serverKey(one.server));
    if (one.isServerGone && known !== undefined) server.go.push(() => `-D ${serverText(known)}`);
  }
  const gone = 'remove sets, chains and addresses';
  for (const planned of [...parts.goneAddresses, ...parts.goneEntries]) draft(planned.step, gone).go.push(planned.line);
  for (const { step } of parts.goneSets) draft(step, gone).isGone = true;
  const { family } = state.settings;
  return [...drafts].map(([key, made]) => toStep({ key, family, kind: 'virtual servers' }, made));
}

function toStep(name: StepName, { phase, come, go, owner, isNew, isGone }: StepDraft): Step {
  return {
    ...name,
    action: isNew ? 'create' : isGone ? 'remove' : 'update',
    phase,
    owner,
    concerns: () => new Set(come.map((planned) => planned.owner).filter((who) => who !== undefined)),
    lines: () => [...come.map(({ line }) => `+ ${line()}`), ...go.map((line) => `- ${line()}`)],
  };
}
