/**
 * Clients of `/programmed` on a simulated node: after a write they ask whether it is in the kernel, and wait. A yes is a promise: from then
 * on no packet meets an older version.
 */
import type { Family } from '../../../src/base/address.ts';
import type { ServiceKey } from '../../../src/proxy/model/objects.ts';
import type { Claim } from '../check/safety.ts';
import type { FrontendKey, Versions } from '../check/versions.ts';
import { NOBODY, type SimTime } from '../engine/time.ts';
import { HEALTH_PORT } from './config-text.ts';
import type { SimPorts } from './ports.ts';

export interface MarksOptions {
  readonly ports: Pick<SimPorts, 'ask'>;
  readonly versions: Versions;
  readonly time: SimTime;
  /** The agent said yes. */
  readonly onYes: (claims: ReadonlyMap<FrontendKey, Claim>) => void;
}

/** A Service or a slice at a version, `key`: `namespace/name`. */
export interface Written {
  readonly of: 'service' | 'slice';
  readonly key: string;
  readonly service: ServiceKey;
  readonly version: number;
  /** Of a slice: frontends of the other family are not promised, which may be unserved. */
  readonly family?: Family | undefined;
}

const WAIT = '20s';
/** Milliseconds until a client asks again that got no yes. */
const AGAIN_MS = 3000;
const MAX_QUESTIONS = 30;

export class Marks {
  readonly #options: MarksOptions;
  /** The version of the last write, by kind and key. */
  readonly #newest = new Map<string, number>();
  #isOver = false;

  constructor(options: MarksOptions) {
    this.#options = options;
  }

  /** Versions of before are given again to other objects: no answer says which is meant. */
  restored(): void {
    this.#isOver = true;
  }

  /** An actor wrote an object, and asks for it until the answer is yes, or the object was written again. */
  written(written: Written): void {
    const { of, key } = written;
    this.#newest.set(`${of} ${key}`, written.version);
    this.#ask(written, this.#claims(written), MAX_QUESTIONS);
  }

  #ask(written: Written, claims: ReadonlyMap<FrontendKey, Claim>, left: number): void {
    const { of, key, version } = written;
    if (this.#isOver || left === 0 || this.#newest.get(`${of} ${key}`) !== version) return;
    const { ports, time, onYes } = this.#options;
    const path = `/programmed?${of}=${key}&version=${version}&wait=${WAIT}`;
    void ports.ask({ port: HEALTH_PORT, path }).then((answer) => {
      if (answer?.status !== 200 || !isYes(answer.body))
        time.after(AGAIN_MS, () => this.#ask(written, claims, left - 1), NOBODY);
      else if (!this.#isOver) onYes(claims);
    });
  }

  /** The meaning of a yes for each frontend of the Service. */
  #claims({ of, service, family }: Written): ReadonlyMap<FrontendKey, Claim> {
    const { versions } = this.#options;
    const claims = new Map<FrontendKey, Claim>();
    for (const { key, at, owners } of versions.frontends) {
      if (family !== undefined && at.family !== family) continue;
      if (!owners.some((owner) => owner?.port.service === service)) continue;
      const last = owners.at(-1);
      // Another Service has it now, which may be written later.
      if (last !== undefined && last.port.service !== service) continue;
      const slices = of === 'slice' ? versions.slicesOf(service, at.family).length - 1 : 0;
      claims.set(key, { owner: of === 'service' ? owners.length - 1 : 0, service, slices });
    }
    return claims;
  }
}

function isYes(body: string): boolean {
  return (JSON.parse(body) as { readonly reached: boolean }).reached;
}
