/** The answers of `slicewire status` and `slicewire history` as text for people; both list syncs. Without schemas, because the pages use it. Pure. */
import { firstLine } from '../../base/cause.ts';
import { driftText } from '../../proxy/model/drift.ts';
import { faultText } from '../../proxy/model/objects.ts';
import { bytesText, clockTime, columns, countText, listText, millisecondsText, timeBetween } from './format.ts';
import type { History, RecordedChange, RecordedSync } from './history.ts';
import type { Status } from './status.ts';

/** Most faults that the text lists; the others are counted. `-o json` has all. */
const MAX_FAULTS = 20;

export function statusText(status: Status): string {
  return [
    ...head(status),
    ...health(status),
    ...source(status),
    ...programmed(status),
    ...latency(status),
    ...syncs(status),
    ...troubles(status),
    ...reach(status),
  ].join('\n');
}

const WHO = {
  agent: (status: Status) => `pid ${status.pid}`,
  command: () => 'no agent was asked',
  recording: () => 'from a recording',
} as const;

function head(status: Status): string[] {
  const { by, families, startedAt } = status;
  const since = startedAt === null ? '' : `, for ${timeBetween(startedAt, by.at)}`;
  const served = families.length === 0 ? 'no family yet' : listText(families);
  const reason = by.modeReason === undefined ? [] : [`Mode: auto chose ${by.mode}, because ${by.modeReason}`];
  return [
    `slicewire ${by.version} on ${by.node}: ${by.mode} mode, ${served}, ${WHO[by.who](status)}${since}`,
    ...reason,
  ];
}

/** Only an agent that was asked can be live and ready. */
function health({ by, health: { healthy, ready, live, reasons } }: Status): string[] {
  const process = by.who === 'agent' ? [ready ? 'ready' : 'not ready', ...(live ? [] : ['not live'])] : [];
  const is = [healthy ? 'healthy' : 'not healthy', ...process];
  return [`Health: ${is.join(', ')}`, ...indented(reasons)];
}

function source({ source: from, heard, objects, by: { at: now } }: Status): string[] {
  const rows = heard.map(({ of, at, lost }) => {
    const last = at === null ? 'not heard of yet' : `heard of ${timeBetween(at, now)} ago`;
    return [of, lost === null ? last : `${last}; ${lostText(lost)}`];
  });
  const has = `${countText(objects.services, 'Service')}, ${countText(objects.slices, 'EndpointSlice')}`;
  return ['', `Source: ${from} (${has})`, ...indented(columns(rows))];
}

function programmed({ programmed: marks, by: { who } }: Status): string[] {
  if (who !== 'agent' || marks == null || (marks.services === '' && marks.slices === '')) return [];
  const upTo = (version: string) => (version === '' ? 'none' : version);
  return [
    `In the kernel: Services up to version ${upTo(marks.services)}, EndpointSlices up to version ${upTo(marks.slices)}`,
  ];
}

function latency({ latency: seen, by }: Status): string[] {
  if (by.who !== 'agent') return [];
  if (seen === null) return ['Changes reached the kernel: none in the last hour'];
  const { changes, p50, p99, most: max, since } = seen;
  const times = `half within ${millisecondsText(p50)}, 99 % within ${millisecondsText(p99)}, all within ${millisecondsText(max)}`;
  return [`Changes reached the kernel: ${times} (${countText(changes, 'change')} since ${clockTime(since, by.at)})`];
}

function syncs({ syncs: all, by: { at: now } }: Status): string[] {
  if (all.length === 0) return [];
  return ['', 'Last syncs, the latest first:', ...syncRows(all, now)];
}

/** `another program wrote: nft, pid 7` */
export function triggerText({ trigger, by }: Pick<RecordedSync, 'trigger' | 'by'>): string {
  return by === '' ? trigger : `${trigger}: ${by}`;
}

/** `not followed since 2026-11-22T12:00:00.000Z: …` */
export function lostText({ since, cause }: NonNullable<Status['heard'][number]['lost']>): string {
  return `not followed since ${since}: ${cause}`;
}

/** A table of syncs. */
function syncRows(syncs: readonly RecordedSync[], now: string): string[] {
  const titles = [
    'sync',
    'began',
    'why',
    'outcome',
    'changes',
    'writes',
    'took',
    'read',
    'render',
    'write',
    'Services',
  ];
  const rows = syncs.map((sync) => {
    const { number, at, outcome, changes, steps, milliseconds, services } = sync;
    const { all, reading, desiring, writing } = milliseconds;
    const times = [all, reading, desiring, writing].map(millisecondsText);
    const why = triggerText(sync);
    return [`${number}`, clockTime(at, now), why, outcome, `${changes}`, `${steps}`, ...times, services.join(' ')];
  });
  const details = syncs.map(({ failed, drift }) => [
    ...failed.map((text) => `      not written: ${firstLine(text)}`),
    ...drift.map((one) => `      another program had changed ${driftText(one)}`),
  ]);
  const [title = '', ...lines] = indented(columns([titles, ...rows]));
  return [title, ...lines.flatMap((line, i) => [line, ...(details[i] ?? [])])];
}

function troubles({ faults, refused, drift, by: { at: now } }: Status): string[] {
  const lines: string[] = [];
  if (refused.length > 0) {
    const texts = refused.map(({ service, cause }) => (cause === '' ? service : `${service}: ${cause}`));
    lines.push('', `The kernel refuses ${countText(refused.length, 'Service')}:`, ...indented(texts));
  }
  if (faults.length > 0) {
    const more = faults.length - MAX_FAULTS;
    lines.push('', `${countText(faults.length, 'fault')} of objects:`);
    lines.push(...indented(faults.slice(0, MAX_FAULTS).map(faultText)));
    if (more > 0) lines.push(`  and ${countText(more, 'more fault')}; -o json lists them all`);
  }
  if (drift.length > 0) {
    lines.push('', 'Changed by other programs, and repaired:');
    lines.push(...indented(columns(drift.map((one) => [clockTime(one.at, now), driftText(one)]))));
  }
  return lines;
}

function reach({ history, by: { at: now, who } }: Status): string[] {
  if (history === null) return [];
  const { reachesBackTo, bytes, folder } = history;
  if (who === 'recording') return ['', `History: reaches back to ${clockTime(reachesBackTo, now)}`];
  const where = `${bytesText(bytes)} in memory${folder === '' ? '' : `, and more in ${folder}`}`;
  return [
    '',
    `History: reaches back to ${clockTime(reachesBackTo, now)} (${timeBetween(reachesBackTo, now)}, ${where})`,
  ];
}

/** The first line of each; `-o json` has the others. */
function indented(texts: readonly string[]): string[] {
  return texts.map((text) => `  ${firstLine(text)}`);
}

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
