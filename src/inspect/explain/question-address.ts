/** The addresses of FROM and TO. Pure. */
import { type Address, parseAddress } from '../../base/address.ts';
import { WrongQuestion } from '../wire/problem.ts';

/** An address of FROM or TO. Throws WrongQuestion. */
export function readAddress(text: string, of: 'FROM' | 'TO'): Address {
  const address = parseAddress(text);
  if (address !== undefined) return address;
  const forms =
    of === 'FROM'
      ? 'write pod/NAMESPACE/NAME, an IP address, node or outside'
      : 'write ADDRESS:PORT, svc/NAMESPACE/NAME[:PORT] or nodeport:PORT';
  const isName = /^[a-z0-9][-a-z0-9.]*$/i.test(text) && /[a-z]/i.test(text);
  const why = isName ? 'is a name, and names are not looked up' : 'is not an IP address';
  throw new WrongQuestion(`${of} ${text === '' ? '""' : text} ${why}; ${forms}`);
}
