/** Phrases about Services, durations and lists of names in sentences. Pure. */

import type { Service, ServicePortSpec } from '../../proxy/model/objects.ts';
import { listText } from '../wire/format.ts';

/** At most so many words, and the number of the others. */
export function firstOf(words: readonly string[], most = 5): string {
  if (words.length <= most) return listText(words);
  return `${words.slice(0, most).join(', ')} and ${words.length - most} more`;
}

/** `45 s`, `12 min`, `2 h 59 min`. */
export function lasting(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  const [hours, left] = [Math.floor(minutes / 60), minutes % 60];
  return left === 0 ? `${hours} h` : `${hours} h ${left} min`;
}

/** A sentence's first letter; an address or a name stays as it is. */
export function capital(text: string): string {
  return !/^[a-z]+[ ,']/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1);
}

/** `port 80`, `ports 80 and 9090/UDP`: the protocol is written where it is not TCP. */
export function portNumbers({ ports }: Pick<Service, 'ports'>): string {
  const numbers = ports.map(({ port, protocol }) => (protocol === 'TCP' ? String(port) : `${port}/${protocol}`));
  return `port${numbers.length === 1 ? '' : 's'} ${firstOf(numbers)}`;
}

/** `http (80/TCP)`. */
export function portName({ name, port, protocol }: ServicePortSpec): string {
  return name === '' ? `${port}/${protocol}` : `${name} (${port}/${protocol})`;
}
