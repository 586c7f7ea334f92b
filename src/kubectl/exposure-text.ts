/** What one node exposes, as text for people. Pure. */
import type { Exposed, Exposure } from '../answers/exposure.ts';
import { columns, wrapped } from '../answers/layout.ts';
import { countText } from '../answers/words.ts';

export function exposureText({ by, nodePortAddresses, exposed, omitted, problems }: Exposure): string {
  const head = `Node ${by.node} answers on ${countText(exposed.length + omitted, 'address and port', 'addresses and ports')} from outside, in ${by.mode} mode, as of ${by.at}.`;
  const served = nodePortAddresses.length === 0 ? 'no address' : nodePortAddresses.join(', ');
  const wrong = [...problems, ...exposed.flatMap((one) => one.problems.map((problem) => `${where(one)}: ${problem}`))];
  const rows = exposed.map((one) => [one.kind, where(one), one.service, to(one), one.answers]);
  const lines = [
    ...wrapped(head),
    ...wrapped(`Node ports are served on ${served}.`),
    ...(wrong.length === 0 ? [] : ['', 'What looks wrong', ...wrong.flatMap((text) => wrapped(text, '- ', '  '))]),
    ...(rows.length === 0 ? [] : ['', ...columns([['kind', 'where', 'Service', 'open to', 'answer'], ...rows])]),
    ...(omitted === 0 ? [] : [`and ${countText(omitted, 'more')}`]),
  ];
  return `${lines.join('\n')}\n`;
}

function where({ address, port, protocol }: Exposed): string {
  const host = address.includes(':') ? `[${address}]:` : address === '' ? '*:' : `${address}:`;
  return `${host}${port}/${protocol}`;
}

function to({ to: ranges }: Exposed): string {
  return ranges.length === 0 ? 'everybody' : ranges.join(' ');
}
