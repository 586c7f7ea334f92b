/** The results of a soak as text, for docs/reliability.md and for the terminal. */
import { summary, table } from '../bench/text.ts';
import { type FirstLast, missedOf, mostForRepair, problemsOf, type SoakResult } from '../soak/result.ts';

const count = (value: number) => Math.round(value).toLocaleString('en');
const seconds = (milliseconds: number) => `${(milliseconds / 1000).toFixed(1)} s`;
const megabytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(0)} MB`;
const minutes = (value: number) => `${Math.round((value / 60) * 10) / 10} min`;

export function soakLines(result: SoakResult): string {
  const problems = [...problemsOf(result), ...missedOf(result)];
  const verdict =
    problems.length === 0
      ? 'Nothing was lost, and nothing was wrong.'
      : `**Found:**\n\n${problems.map((one) => `- ${one}`).join('\n')}`;
  const parts = [head(result), verdict, table(['measure', 'found'], rows(result)), syncs(result), flushes(result)];
  return [...parts, complaints(result), failures(result)].filter((part) => part !== '').join('\n\n');
}

function head({ ranAt, machine, commit, seconds: long, tail, isEarly, services, changes }: SoakResult): string {
  const early = isEarly ? ' It was ended early.' : '';
  return `Run on ${ranAt.slice(0, 10)}: ${minutes(long)} with restarts and ${minutes(tail)} without.${early}
Commit ${commit}. Machine: ${machine}.
${count(services)} Services, ${changes.perSecond.toFixed(0)} changes a second.`;
}

function rows(result: SoakResult): string[][] {
  const { changes, probes, lives, reloads, unhealthy, verify } = result;
  const starts = summary(lives.flatMap(({ start }) => start ?? []));
  const ends = summary(lives.filter(({ signal }) => signal === 'SIGTERM').map(({ end }) => end));
  const by = (signal: string) => lives.filter((life) => life.signal === signal).length;
  const late = verify.filter(({ why }) => why !== undefined).length;
  const wrong = verify.filter(({ differences }) => differences.length > 0).length;
  return [
    ['changes made; skipped, because the machine was too busy', `${count(changes.made)}; ${count(changes.skipped)}`],
    ['probes sent', count(probes.sent)],
    ['answered', count(probes.answered)],
    ['lost', count(probes.lost)],
    ['answered by an address that is no endpoint', count(probes.wrong)],
    ['cut: on its way when the endpoint of a client that keeps its port left', count(probes.cut)],
    ["failed while another program's write was not repaired yet", count(probes.whileDamaged)],
    ['first packets of connections that were sent again', count(probes.sentAgain)],
    ['slowest answer', seconds(probes.slowest)],
    ['restarts by SIGTERM; by SIGKILL', `${by('SIGTERM')}; ${by('SIGKILL')}`],
    ['restart, from exec to the first sync: median, longest', `${seconds(starts.p50)}, ${seconds(starts.most)}`],
    ['from SIGTERM to the end: median, longest', `${seconds(ends.p50)}, ${seconds(ends.most)}`],
    [
      'other mode by the configuration file: how often, longest',
      `${reloads.length}, ${seconds(Math.max(0, ...reloads))}`,
    ],
    ['longest time without health, restarts included', seconds(unhealthy.longest)],
    ['memory, of all lives after the start: first, last, most', three(result.memory, megabytes)],
    ...result.tailMemory.map((memory) => [
      `memory, without restarts, ${memory.mode} mode: median of the first third, of the last, most`,
      three(memory, megabytes),
    ]),
    ['open descriptors, with restarts: first, last, most', three(result.descriptors, count)],
    ['open descriptors, without restarts: first, last, most', three(result.tailDescriptors, count)],
    ['timers, without restarts: first, last, most', three(result.timers, count)],
    ['entries of the connection table: first, last, most', three(result.connections, count)],
    ...(result.datapath ?? []).map(({ from, passed, failed }) => [
      `connections of the agent to itself through its rules, ${from === 'pod' ? 'as of a Pod' : 'from the node'}: passed, failed`,
      `${count(passed)}, ${count(failed)}`,
    ]),
    ...(result.falseAlarms === undefined
      ? []
      : [['times that the data path was called broken without a cause', count(result.falseAlarms)]]),
    [
      '`slicewire verify`: times asked, without an answer in time, with a difference',
      `${verify.length}, ${late}, ${wrong}`,
    ],
  ];
}

const three = ({ first, last, most }: FirstLast, text: (value: number) => string) =>
  [first, last, most].map(text).join(', ');

function syncs(result: SoakResult): string {
  const time = (value: number) => (Number.isFinite(value) ? `${value} s` : 'more than the histogram holds');
  const head = ['mode', 'syncs', 'not complete', 'a sync, p50', 'p99', 'from change to kernel, p50', 'p99'];
  const rows = result.syncs.map(({ mode, syncs: all, failed, sync, programming }) => [
    ...[mode, count(all), count(failed), time(sync.p50), time(sync.p99)],
    ...[time(programming.p50), time(programming.p99)],
  ]);
  return `The agent waits a second between two syncs (\`minSyncPeriod\`). Times are the upper bounds of its histograms' buckets.

${table(head, rows)}`;
}

function flushes(result: SoakResult): string {
  const rows = result.flushes.map(({ mode, command, repaired, isNamed }) => [
    ...[mode, `\`${command}\``],
    ...[
      repaired === undefined ? '**not repaired**' : `${count(repaired)} ms`,
      `${count(mostForRepair({ command }, result.services))} ms`,
      isNamed ? 'yes' : 'no',
    ],
  ]);
  if (rows.length === 0) return '';
  return `The writes of another program, how long after the end of each the agent had repaired it, the limit, and whether the log names the program.

${table(['mode', 'command', 'repaired after', 'at most', 'named'], rows)}`;
}

function complaints(result: SoakResult): string {
  if (result.complaints.length === 0) return '';
  const rows = result.complaints.map(({ message, count: many }) => [message.replaceAll('|', '\\|'), count(many)]);
  return `Warnings and errors in the log, each number in them as N.

${table(['line', 'times'], rows)}`;
}

function failures({ probes }: SoakResult): string {
  if (probes.failures.length === 0) return '';
  return `The first of the probes that were lost or wrong:\n\n${probes.failures.map((one) => `- ${one}`).join('\n')}`;
}
