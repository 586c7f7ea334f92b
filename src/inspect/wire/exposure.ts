/** The answer of `slicewire exposure`: what this node answers from outside the cluster, and to whom. */
import * as z from 'zod';
import { type Address, endpointText } from '../../base/address.ts';
import { columns, countText, listText, wrapped } from './format.ts';
import { answer, answeredBy, family, protocol } from './schema-common.ts';

const exposedSchema = z.object({
  kind: z.enum(['node port', 'external IP', 'load balancer', 'health check port']),
  address: z.string().describe('an address, or "" for every address that serves node ports'),
  port: z.number().int(),
  protocol,
  family,
  service: z.string().describe('namespace/name[:port]'),
  to: z
    .array(z.string())
    .describe('the ranges that may use it; empty for everybody, "nobody" where no range is of its family'),
  answers: z.enum(['endpoints', 'refuses', 'drops', 'health']).describe('the fate of a connection from outside now'),
  problems: z.array(z.string()).describe('problems, as sentences'),
});

export const exposureSchema = z.object({
  ...answer('Exposure'),
  by: answeredBy,
  nodePortAddresses: z.array(z.string()).describe('addresses of this node that serve node ports'),
  exposed: z.array(exposedSchema).describe('sorted: those with problems first'),
  omitted: z.number().int().describe('entries that are left out of a very long list, those without a problem first'),
  problems: z.array(z.string()).describe('problems of the node as a whole, as sentences'),
});

export type Exposure = z.infer<typeof exposureSchema>;
export type Exposed = z.infer<typeof exposedSchema>;

/** The kinds in the order of the text, with their nouns. */
const NOUNS = {
  'node port': ['node port', 'node ports'],
  'external IP': ['external IP', 'external IPs'],
  'load balancer': ['load-balancer address', 'load-balancer addresses'],
  'health check port': ['health check port', 'health check ports'],
} as const satisfies Record<Exposed['kind'], readonly [one: string, several: string]>;

const RESULTS: Readonly<Record<Exposed['answers'], string>> = {
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
  const counts = Object.entries(NOUNS).flatMap(([kind, [one, several]]) => {
    const count = exposed.filter((each) => each.kind === kind).length;
    return count === 0 ? [] : [countText(count, one, several)];
  });
  const what = counts.length === 0 ? 'nothing' : listText(counts);
  const more = omitted === 0 ? '' : ` (${countText(omitted, 'more entry', 'more entries')} not listed)`;
  // Of the rules of another proxy the problems say where it answers otherwise.
  const lines = [`From outside, ${by.node} ${by.rules === undefined ? 'answers' : 'should answer'} at ${what}${more}`];
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
  const where =
    address === '' ? `${port}/${protocol} ${family}` : `${endpointText(address as Address, port)}/${protocol}`;
  return [kind, where, service, to.length === 0 ? 'everybody' : listText(to), RESULTS[answers]];
}
