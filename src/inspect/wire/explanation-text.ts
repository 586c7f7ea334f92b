/** An explanation as text for people: at most 100 columns, but for rules of the kernel. Pure. */
import type { ExplainedEndpoint, ExplainedStep, Explanation, Reason } from './explanation.ts';
import { countText, percentText } from './format.ts';
import { columns, wrapped } from './text-width.ts';

/** Endpoints whose own steps are written out; `-o json` has all. */
const MAX_WAYS = 6;

export function explanationText(answer: Explanation): string {
  const { differs, verdict, notes } = answer;
  const parts = [
    differs.flatMap((sentence) => wrapped(sentence)),
    wrapped(verdict.sentence),
    wrapped(circumstances(answer)),
    section('Endpoints', endpointLines(verdict.endpoints)),
    section('Why', reasonLines(answer.reasons)),
    section('EndpointSlices', sliceLines(answer)),
    section('The way through the kernel', wayLines(answer)),
    section('Seen in the kernel', seenLines(answer.seen)),
    section(
      'Notes',
      notes.flatMap((note) => wrapped(note, '- ', '  ')),
    ),
  ];
  return `${parts
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')}\n`;
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : [title, ...lines.map((line) => `  ${line}`)];
}

const SENDERS: Readonly<Record<Explanation['from']['what'], string>> = {
  pod: 'a Pod',
  node: 'this node',
  outside: 'outside',
};

function circumstances({ from, to, by }: Explanation): string {
  const sender = `From ${from.address} (${SENDERS[from.what]})`;
  const target = to.address.includes(':') ? `[${to.address}]:${to.port}` : `${to.address}:${to.port}`;
  return `${sender} to ${target} (${to.protocol}), on node ${by.node} in ${by.mode} mode, as of ${by.at}.`;
}

function endpointLines(endpoints: readonly ExplainedEndpoint[]): string[] {
  const whys = new Set(endpoints.map(({ why }) => why));
  return columns(
    endpoints.map(({ endpoint, share, masqueraded, why }) => {
      const address = masqueraded ? 'masqueraded' : 'keeps the source address';
      return [endpoint, percentText(share), whys.size > 1 ? `${address}: ${why}` : address];
    }),
  );
}

function reasonLines(reasons: readonly Reason[]): string[] {
  return [...Map.groupBy(reasons, ({ object }) => object)].flatMap(([object, group]) => [
    object,
    ...group.flatMap(({ field, value, says }) => {
      const head = field === '' ? [] : [`  ${field}: ${value || '(none)'}`];
      const indent = field === '' ? '  ' : '    ';
      return [...head, ...wrapped(says, indent, indent)];
    }),
  ]);
}

function sliceLines({ slices }: Explanation): string[] {
  return slices.flatMap(({ slice, endpoints }) => [
    slice,
    ...(endpoints.length === 0 ? ['  no endpoints'] : []),
    ...columns(
      endpoints.map(({ endpoint, node, used, why }) => [endpoint, node || '-', used ? 'used' : 'not used', why]),
    ).map((line) => `  ${line}`),
  ]);
}

function wayLines({ steps, verdict: { endpoints } }: Explanation): string[] {
  const ways = endpoints.filter((each) => each.steps.length > 0);
  const own = ways.slice(0, MAX_WAYS).flatMap(({ endpoint, share, steps: further }) => {
    const head =
      endpoints.length === 1 ? [] : [`${steps.length === 0 ? '' : 'then '}to ${endpoint} (${percentText(share)}):`];
    return [...head, ...stepLines(further).map((line) => (endpoints.length === 1 ? line : `  ${line}`))];
  });
  const left = ways.length - MAX_WAYS;
  const more = left > 0 ? [`and ${countText(left, 'more endpoint')} in the same way; -o json has them all`] : [];
  return [...stepLines(steps), ...own, ...more];
}

/** Each chain once while the packet stays in it, then rule and effect. */
function stepLines(steps: readonly ExplainedStep[]): string[] {
  let last = '';
  return steps.flatMap(({ table, chain, rule, does, object }) => {
    const at = `${table} ${chain}`;
    const head = at === last ? [] : [at];
    last = at;
    return [...head, `  ${rule}`, `    ${does}${object === '' ? '' : ` (Service ${object})`}`];
  });
}

function seenLines(seen: Explanation['seen']): string[] {
  if (seen === null) return [];
  const alike = Map.groupBy(seen.packets, ({ steps }) => JSON.stringify(steps)).values();
  const packets = [...alike].flatMap((same) => {
    const [first] = same;
    if (first === undefined) return [];
    const more = same.length > 1 ? `, and ${same.length - 1} more the same way` : '';
    return [`packet at ${first.at}${more}`, ...stepLines(first.steps).map((line) => `  ${line}`)];
  });
  return [...wrapped(seen.sentence), ...packets, ...seen.connections.map((line) => `connection ${line}`)];
}
