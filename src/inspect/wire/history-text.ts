/** The answer of `slicewire history` as text for people. Pure. */

import { clockTime, countText, millisecondsText } from './format.ts';
import type { History, RecordedChange } from './history.ts';
import { syncRows } from './status-text.ts';

export function historyText(history: History): string {
  const { by, service, reachesBackTo, changes, syncs, omitted, stood } = history;
  const of = service === '' ? 'all Services' : `Service ${service}`;
  const lines = [`History of ${of} on ${by.node}, back to ${clockTime(reachesBackTo, by.at)}`];
  if (stood.length > 0) {
    lines.push('', `What stood in the kernel at ${clockTime(by.at, by.at)}:`);
    for (const { object, lines: of } of stood) lines.push(`  ${object}`, ...of.map((line) => `    ${line}`));
  }
  lines.push('');
  if (omitted > 0) lines.push(`${countText(omitted, 'older change')} not listed`);
  if (changes.length === 0) lines.push('no changes');
  for (const change of changes) lines.push(...changeLines(change, by.at));
  if (syncs.length > 0) lines.push('', 'Syncs:', ...syncRows(syncs, by.at));
  return lines.join('\n');
}

function changeLines(change: RecordedChange, now: string): string[] {
  const { at, object, resourceVersion, what } = change;
  const version = resourceVersion === '' ? '' : ` (resourceVersion ${resourceVersion})`;
  const [first = 'changed', ...more] = what;
  const head = `${clockTime(at, now)}  ${object}${version}`;
  return [head, `    ${first}`, ...more.map((phrase) => `    ${phrase}`), `    ${writtenText(change)}`];
}

function writtenText({ sync, inKernelAt, milliseconds }: RecordedChange): string {
  if (inKernelAt === null) return 'not in the kernel yet';
  if (sync === null || milliseconds === null) return 'in the kernel already';
  return `in the kernel after ${millisecondsText(milliseconds)}, by sync ${sync}`;
}
