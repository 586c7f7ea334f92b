/** The answer of `slicewire exposure` as text for people. Pure. */
import type { Exposed, Exposure } from './exposure.ts';
import { countText, listText } from './format.ts';
import { columns, wrapped } from './text-width.ts';

const MORE: Readonly<Record<Exposed['kind'], string>> = {
  'node port': 'node ports',
  'external IP': 'external IPs',
  'load balancer': 'load-balancer addresses',
  'health check port': 'health check ports',
};
const ONE: Readonly<Record<Exposed['kind'], string>> = {
  'node port': 'node port',
  'external IP': 'external IP',
  'load balancer': 'load-balancer address',
  'health check port': 'health check port',
};

const ANSWERS: Readonly<Record<Exposed['answers'], string>> = {
  endpoints: 'reaches endpoints',
  refuses: 'refused: no endpoint',
  drops: 'dropped',
  health: 'health check',
};

export function exposureText(exposure: Exposure): string {
  const { exposed } = exposure;
  const [wrong, right] = [exposed.filter(hasProblem), exposed.filter((one) => !hasProblem(one))];
  return [...head(exposure), ...wrongLines(exposure, wrong), ...rightLines(right, wrong.length > 0)].join('\n');
}

function hasProblem({ problems }: Exposed): boolean {
  return problems.length > 0;
}

function head({ by, exposed, nodePortAddresses, omitted }: Exposure): string[] {
  const kinds = Object.keys(MORE) as Exposed['kind'][];
  const counts = kinds.flatMap((kind) => {
    const count = exposed.filter((one) => one.kind === kind).length;
    return count === 0 ? [] : [countText(count, ONE[kind], MORE[kind])];
  });
  const what = counts.length === 0 ? 'nothing' : listText(counts);
  const more = omitted === 0 ? '' : ` (${countText(omitted, 'more entry', 'more entries')} not listed)`;
  const lines = [`From outside, ${by.node} answers at ${what}${more}`];
  if (exposed.some(({ kind }) => kind === 'node port')) {
    const at = nodePortAddresses.length === 0 ? 'no address of this node' : listText(nodePortAddresses);
    lines.push(`Node ports answer at ${at}`);
  }
  return lines;
}

function wrongLines({ problems }: Exposure, wrong: readonly Exposed[]): string[] {
  if (problems.length === 0 && wrong.length === 0) return ['', 'Nothing looks wrong.'];
  const lines = ['', 'What looks wrong:'];
  for (const problem of problems) lines.push(...wrapped(problem, '  ', '    '));
  for (const one of wrong) {
    lines.push(`  ${rowOf(one).join('  ')}`);
    for (const problem of one.problems) lines.push(...wrapped(problem, '      ', '      '));
  }
  return lines;
}

function rightLines(right: readonly Exposed[], hasWrong: boolean): string[] {
  if (right.length === 0) return [];
  return ['', hasWrong ? 'The others:' : 'All of them:', ...columns(right.map(rowOf)).map((line) => `  ${line}`)];
}

function rowOf({ kind, address, port, protocol, family, service, to, answers }: Exposed): string[] {
  const at = address === '' ? `${port}` : address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
  const where = address === '' ? `${at}/${protocol} ${family}` : `${at}/${protocol}`;
  return [kind, where, service, to.length === 0 ? 'everybody' : listText(to), ANSWERS[answers]];
}
