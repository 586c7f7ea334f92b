/** Records of the simulator's histories. A campaign of hours may be run in pieces. */
import type { RecordedHistories, RecordedTable } from './recorded.ts';

/** A commit that is known, and that nobody changed a file of. */
const COMMIT = /^[0-9a-f]+$/;

/** The sum of both where the later one begins with the next seed, on the same state of the source; otherwise the later one. */
export function joined(former: RecordedHistories | undefined, later: RecordedHistories): RecordedHistories {
  const isNext =
    former !== undefined &&
    former.commit === later.commit &&
    COMMIT.test(later.commit) &&
    later.first === former.first + former.found.histories;
  if (!isNext) return later;
  const [a, b] = [former.found, later.found];
  const found = {
    histories: a.histories + b.histories,
    failed: [...a.failed, ...b.failed],
    calls: a.calls + b.calls,
    commits: a.commits + b.commits,
    faults: a.faults + b.faults,
    starts: a.starts + b.starts,
    simulated: a.simulated + b.simulated,
  };
  return { ...later, first: former.first, found, compared: former.compared + later.compared };
}

export function historiesTable({ first, found, compared, ...measured }: RecordedHistories): RecordedTable {
  const number = (count: number) => count.toLocaleString('en');
  const { histories, failed, simulated, starts, calls, faults, commits } = found;
  const again = failed.map((seed) => `\`npm run sim -- --seed ${seed}\``).join(', ');
  return {
    ...measured,
    command: `npm run sim -- --from ${first} --count ${histories}`,
    text: failed.length === 0 ? ['No history failed.'] : [`**Failed:** ${again}.`],
    head: ['', 'count'],
    rows: [
      ['histories', number(histories)],
      ['of them failed', number(failed.length)],
      ['of them repeated by a real kernel', number(compared)],
      ['simulated hours', number(Math.round(simulated / 3_600_000))],
      ['starts of the agent', number(starts)],
      ['calls to the outside', number(calls)],
      ['faults at calls', number(faults)],
      ['commits of the kernel that were checked', number(commits)],
    ],
  };
}
