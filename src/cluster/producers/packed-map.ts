/** Objects by key, each packed. What `get` returns is new each time. */

import type { Packed } from '../../proxy/model/packed/bytes.ts';
import { pack } from './packing.ts';
import { unpack } from './unpacking.ts';

export class PackedMap<T> {
  readonly #packed = new Map<string, Packed<T>>();

  keys(): Iterable<string> {
    return this.#packed.keys();
  }

  get(key: string): T | undefined {
    const packed = this.#packed.get(key);
    return packed === undefined ? undefined : unpack(packed);
  }

  set(key: string, value: T): void {
    this.#packed.set(key, pack(value));
  }

  delete(key: string): void {
    this.#packed.delete(key);
  }
}
