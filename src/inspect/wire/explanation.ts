/** The answer of `slicewire explain`. */
import * as z from 'zod';
import { type Address, endpointText } from '../../base/address.ts';
import { columns, countText, percentText, wrapped } from './format.ts';
import { answer, answeredBy, family, moment, protocol } from './schema-common.ts';

/** A step of a packet's way through the kernel. */
const stepSchema = z.object({
  table: z.string().describe('table of iptables, the table of nftables, "ipvs", or "kernel"'),
  chain: z.string().describe('chain, set, map or virtual server'),
  rule: z.string().describe('the rule as the kernel lists it, the element, or the destination'),
  does: z.string().describe('the effect on the packet in a few words'),
  object: z.string().describe('the Service that the rule stands for; "" when Services share it'),
});

const endpointSchema = z.object({
  endpoint: z.string().describe('address:port'),
  share: z.number().min(0).max(1).describe('the share of new connections'),
  masqueraded: z.boolean().describe('the endpoint sees an address of this node instead of the sender'),
  why: z.string().describe('why it is masqueraded, or why not'),
  steps: z.array(stepSchema).describe('the steps of this endpoint alone; only when asked for'),
});

const reasonSchema = z.object({
  object: z.string().describe('kind and name, such as "Service shop/web"'),
  field: z.string().describe('path of the field; "" for the whole object'),
  value: z.string(),
  says: z.string().describe('the consequence, as a sentence'),
});

export const sliceSchema = z.object({
  slice: z.string().describe('namespace/name of the EndpointSlice'),
  endpoints: z.array(
    z.object({
      endpoint: z.string(),
      node: z.string(),
      used: z.boolean(),
      use: z
        .enum([
          ...(['ready', 'draining', 'replaced by ready ones', 'terminating', 'not ready'] as const),
          ...(['hinted for other nodes', 'hinted for other zones', 'node does not answer', 'standby'] as const),
          ...(['not on this node', 'duplicate', 'no such port', 'set aside'] as const),
        ])
        .describe('the reason in short, for programs'),
      why: z.string().describe('why it is used, or why not'),
    }),
  ),
});

export const explanationSchema = z.object({
  ...answer('Explanation'),
  by: answeredBy,
  from: z.object({
    text: z.string().describe('as it was asked'),
    what: z.enum(['pod', 'node', 'outside']),
    address: z.string(),
  }),
  to: z.object({
    text: z.string().describe('as it was asked'),
    address: z.string(),
    port: z.number().int(),
    protocol,
    family,
  }),
  differs: z.array(z.string()).describe('where the kernel differs from the desired state, as sentences; usually empty'),
  verdict: z.object({
    kind: z.enum(['balanced', 'refused', 'dropped', 'not a Service', 'local']),
    sentence: z.string(),
    service: z.string().describe('namespace/name[:port]; "" when no Service has the destination'),
    endpoints: z.array(endpointSchema),
    sticky: z
      .object({ endpoint: z.string(), seconds: z.number().describe('for how long, when nothing more is sent') })
      .nullable(),
  }),
  reasons: z.array(reasonSchema),
  slices: z.array(sliceSchema),
  notes: z.array(z.string()).describe('near misses, and limits of the answer'),
  steps: z.array(stepSchema).describe('the steps that all packets share; only when asked for'),
  seen: z
    .object({
      packets: z.array(z.object({ at: moment, steps: z.array(stepSchema) })),
      connections: z.array(z.string()),
      sentence: z.string(),
    })
    .nullable()
    .describe('packets traced with --live'),
});

export type Explanation = z.infer<typeof explanationSchema>;
export type ExplainedStep = z.infer<typeof stepSchema>;
export type ExplainedEndpoint = z.infer<typeof endpointSchema>;
export type Reason = z.infer<typeof reasonSchema>;
export type ExplainedSlice = z.infer<typeof sliceSchema>;

/** Endpoints whose own steps are written out; `-o json` has all. */
const MAX_WAYS = 6;

/** At most 100 columns, but for rules of the kernel. */
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
  const target = endpointText(to.address as Address, to.port);
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

/** Each chain once while the packet stays in it, each rule with its effect. */
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
