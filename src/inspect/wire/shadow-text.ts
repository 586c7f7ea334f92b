/** The answer of a shadow as text for people. Without schemas, because the page uses it. Pure. */
import {
  bytesText,
  clockTime,
  columns,
  countText,
  listText,
  millisecondsText,
  numberText,
  timeBetween,
  wrapped,
} from './format.ts';
import type { LastingDifference, Shadow } from './shadow.ts';
import { lostText } from './status-text.ts';

/** Most differences that the text lists; `-o json` has more. */
const MAX_LISTED = 20;

export function shadowText(shadow: Shadow): string {
  return [head(shadow), source(shadow), differences(shadow), latencies(shadow), change(shadow), cost(shadow)]
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n');
}

function head({ by, compared, pid, startedAt }: Shadow): string[] {
  // Before the first comparison the mode of kube-proxy may not be known.
  const mode = compared === null ? '' : ` in ${by.mode} mode`;
  return [
    `slicewire ${by.version} on ${by.node}: a shadow of kube-proxy${mode}, pid ${pid}, for ${timeBetween(startedAt, by.at)}`,
    'It writes nothing to the kernel.',
  ];
}

function source({ source: from, objects, heard, by: { at: now } }: Shadow): string[] {
  const rows = heard.map(({ of, at, lost }) => [
    of,
    lost !== null ? lostText(lost) : at === null ? 'not heard of yet' : `heard of ${timeBetween(at, now)} ago`,
  ]);
  const has = `${countText(objects.services, 'Service')}, ${countText(objects.slices, 'EndpointSlice')}`;
  return [`Source: ${from} (${has})`, ...columns(rows).map((line) => `  ${line}`)];
}

/** Whether the rules can be compared, and do what the objects ask for. Before the first comparison that is a problem. */
export function isRight({ problem, count }: Pick<Shadow, 'problem' | 'count'>): boolean {
  return problem === '' && count === 0;
}

/** Whether the rules do what the objects ask for, as one sentence. */
export function verdictOf({ problem, compared, count }: Shadow): string {
  if (problem !== '' || compared === null) return `The rules cannot be compared now: ${problem}.`;
  const followed = `${countText(compared.connections, 'connection')} followed in ${millisecondsText(compared.milliseconds)}`;
  if (count === 0) return `kube-proxy's rules do what the objects ask for: ${followed}.`;
  return `kube-proxy's rules do not do what the objects ask for: ${countText(count, 'difference')} by Service and kind, ${followed}.`;
}

function differences(shadow: Shadow): string[] {
  const { differences: all, count, waiting, by } = shadow;
  const more = count - Math.min(all.length, MAX_LISTED);
  return [
    ...wrapped(verdictOf(shadow)),
    ...all.slice(0, MAX_LISTED).flatMap((one) => lastingLines(one, by.at)),
    ...(more > 0 ? [`  and ${countText(more, 'more difference')}; -o json lists up to 1,000`] : []),
    ...wrapped(waitingText(waiting, by.at)),
  ];
}

/** `Service shop/web since 12:00:00: 3 connections` */
export function lastingTitle({ service, since, connections }: LastingDifference, now: string): string {
  const of = service === '' ? 'Addresses that no Service has' : `Service ${service}`;
  return `${of}, since ${clockTime(since, now)}: ${countText(connections, 'connection')}`;
}

function lastingLines(one: LastingDifference, now: string): string[] {
  const { object, found, wanted, causes = [] } = one.example;
  return [
    `  ${lastingTitle(one, now)}, such as ${object}`,
    ...wrapped(`is ${found.join(', ')}`, '    ', '    '),
    ...wrapped(`should be ${wanted.join(', ')}`, '    ', '    '),
    ...causes.flatMap((cause) => wrapped(cause, '    ', '    ')),
  ];
}

/** The changes that are not known to be written, as a sentence. */
export function waitingText({ services, oldest }: Shadow['waiting'], now: string): string {
  if (services === 0 || oldest === null) return 'No change waits for a commit of kube-proxy.';
  const age = timeBetween(oldest, now);
  return `kube-proxy is not known to have written the changes of ${countText(services, 'Service')}, the oldest received ${age} ago.`;
}

const SIGHTS: Readonly<Record<Shadow['latency']['sight'], string>> = {
  'rules compared': 'A commit has a change when the rules of its Service then do what the objects ask for.',
  'chains named': 'A commit has a change when it names the chains of its Service.',
  'servers polled': 'The virtual servers are asked every 100 ms whether they have the endpoints.',
  'not told': 'The kernel tells nothing of the legacy variant of iptables, so that no time of kube-proxy is measured.',
};

export function sightText({ sight }: Pick<Shadow['latency'], 'sight'>): string {
  return SIGHTS[sight];
}

function latencies({ latency, by }: Shadow): string[] {
  const { theirs, plan, unmeasured } = latency;
  const row = (name: string, of: Shadow['latency']['theirs']) =>
    of === null
      ? [name, 'no change in the last hour']
      : [
          name,
          `half within ${millisecondsText(of.p50)}`,
          `99 % within ${millisecondsText(of.p99)}`,
          `all within ${millisecondsText(of.most)}`,
          `${countText(of.changes, 'change')} since ${clockTime(of.since, by.at)}`,
        ];
  const rows = columns([
    row('kube-proxy, from its receipt to the commit', theirs),
    row('slicewire, to make its rules', plan),
  ]);
  const left = unmeasured === 0 ? [] : [`${countText(unmeasured, 'change')} more could not be measured.`];
  return ['Time until the rules follow a change:', ...rows.map((line) => `  ${line}`), sightText(latency), ...left];
}

/** The changes that a switch would make, as sentences. */
export function changeSentences({ change: plan, onPurpose, onPurposeCount, count, by }: Shadow): string[] {
  if (plan === null) return [];
  const { create, update, remove, connections, at } = plan;
  const open =
    connections === null
      ? 'The number of open connections to Services cannot be told here.'
      : `${numberText(connections)} open ${connections === 1 ? 'connection' : 'connections'} to Services would go on: the kernel keeps the endpoint of each.`;
  const answered = [...new Set(onPurpose.map(({ object }) => object))];
  const otherwise =
    onPurposeCount === 0
      ? `Every connection that was followed would go where it goes now${count === 0 ? '' : ', but for the differences'}.`
      : `${countText(onPurposeCount, 'connection')} would go elsewhere, because kube-proxy leads them elsewhere on purpose: ${listText(answered, 5)}.`;
  return [
    `slicewire would create ${countText(create, 'kernel object')}, change ${numberText(update)} and remove ${numberText(remove)} (planned at ${clockTime(at, by.at)}).`,
    open,
    otherwise,
  ];
}

function change(shadow: Shadow): string[] {
  const sentences = changeSentences(shadow);
  return sentences.length === 0
    ? []
    : ['A switch to slicewire:', ...sentences.flatMap((one) => wrapped(one, '  ', '  '))];
}

function cost({ cost: { processor, memory }, startedAt, by }: Shadow): string[] {
  return [
    `The shadow itself: ${processor.toFixed(1)} s of processor time in ${timeBetween(startedAt, by.at)}, ${bytesText(memory)} of memory`,
  ];
}
