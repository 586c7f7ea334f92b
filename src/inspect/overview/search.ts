/** The search of Services: by name, address, port, node port, and address of an endpoint. Pure. */
import { type Address, endpointText, parseAddress } from '../../base/address.ts';
import type { Service, Slice } from '../../proxy/model/objects.ts';

/** A word of the search. */
export interface Term {
  /** In small letters. */
  readonly text: string;
  /** The same address in canonical text, where the word is an address. */
  readonly address: Address | undefined;
  readonly isNumber: boolean;
  /** It may be the beginning of an address. */
  readonly isAddress: boolean;
}

/** Words of a search; a Service fits it when it fits each of them. */
export function termsOf(search: string): Term[] {
  const words = search
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  return [...new Set(words)].map((text) => ({
    text,
    address: parseAddress(text),
    isNumber: /^\d+$/.test(text),
    isAddress: /^[0-9a-f:.[\]]*[.:][0-9a-f:.[\]]*$/.test(text),
  }));
}

/**
 * A word fits a Service whose namespace/name contains it, that has it as port, node port or health check port, or that has an address,
 * or an endpoint, that begins with it: `10.96.`, `10.96.0.10:80`, `[2001:db8::1]:80`. `slices` is called when nothing else fits.
 */
export function fits(terms: readonly Term[], service: Service, slices: () => readonly Slice[]): boolean {
  return terms.every(
    (term) => fitsName(term, service.key) || fitsNumber(term, service) || fitsAddress(term, service, slices),
  );
}

/** undefined: the name alone does not say it. */
export function fitsByName(terms: readonly Term[], key: string): boolean | undefined {
  if (terms.every((term) => fitsName(term, key))) return true;
  // A word that is neither a number nor an address can be a part of the name alone.
  return terms.some((term) => !term.isNumber && !term.isAddress && !fitsName(term, key)) ? false : undefined;
}

function fitsName({ text }: Term, key: string): boolean {
  return key.includes(text);
}

function fitsNumber({ isNumber, text }: Term, { ports, healthCheckNodePort }: Service): boolean {
  if (!isNumber) return false;
  const number = Number(text);
  if (number === 0) return false;
  return healthCheckNodePort === number || ports.some(({ port, nodePort }) => port === number || nodePort === number);
}

function fitsAddress(term: Term, service: Service, slices: () => readonly Slice[]): boolean {
  if (!term.isAddress) return false;
  const { clusterIPs, externalIPs, loadBalancerIPs, ports } = service;
  const own = [...clusterIPs, ...externalIPs, ...loadBalancerIPs];
  if (own.some((address) => begins(term, address, ports))) return true;
  return slices().some((slice) => slice.endpoints.some(({ address }) => begins(term, address, slice.ports)));
}

function begins(
  { text, address: asked }: Term,
  address: Address,
  ports: readonly { readonly port: number }[],
): boolean {
  if (address === asked || address.startsWith(text)) return true;
  // The text of a port follows an address that the word holds as a whole.
  return text.includes(address) && ports.some(({ port }) => endpointText(address, port).startsWith(text));
}
