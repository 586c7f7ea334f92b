/**
 * Authenticates and authorizes callers through the API server. A TokenReview (authentication.k8s.io/v1) names the user of a token, and a
 * SubjectAccessReview (authorization.k8s.io/v1) decides whether that user may `get` a nonResourceURL. No API server stores either object.
 *
 * The token itself is never kept: results are cached under its SHA-256. A positive result counts for a minute, any other for a second.
 * A flood of unknown tokens costs the API server a bounded number of reviews, and does not evict cached results. Each address has a rate
 * of its own before the common one, so that made-up tokens of one pod do not delay the tokens of others. A token whose own claims rule it
 * out costs no review.
 */
import { createHash } from 'node:crypto';
import { type Clock, unlessAborted } from '../../base/clock.ts';
import { TokenBucket, type TokenRate } from '../../base/token-bucket.ts';
import type { Access, AccessQuestion, AccessVerdict } from '../../proxy/model/access.ts';
import { type ApiClient, fieldsOf } from './client.ts';

export interface AccessReviewsOptions {
  /** Called at each review. Without a client the result is undecided, and the next review asks for one again. */
  readonly client: () => Promise<Pick<ApiClient, 'write'>>;
  /**
   * A token must be made for one of these audiences; "" is the API server's own. Each audience is one review, until one is accepted,
   * because the name of the API server's own audience is not known here (TokenReviewSpec.audiences).
   */
  readonly audiences: readonly string[];
  readonly clock: Clock;
  /** Cancels reviews that are under way. */
  readonly signal: AbortSignal;
  /** Limits new requests of callers that were not admitted before; each request costs one to three reviews. */
  readonly rate?: TokenRate;
  /** Expected clients: a rate as high as the common one is reserved for their addresses, a quarter of it for each. */
  readonly isTrusted?: (address: string) => boolean;
}

const POSITIVE_TTL_MS = 60_000;
/** Short, so that a right that was just granted takes effect at once. */
const NEGATIVE_TTL_MS = 1000;
const REVIEW_TIMEOUT_MS = 10_000;
/** Limit of cached verdicts, and of cached users; some hundred bytes each. */
const MAX_CACHED = 4096;
const RATE: TokenRate = { burst: 200, refill: 20 };
/** New requests from one address: a small part of the common rate. */
const RATE_OF_ADDRESS: TokenRate = { burst: 4, refill: 5000 };
/** One expected address gets a quarter of the reserved rate: the others have their reviews while a program there makes tokens up. */
const TRUSTED_SHARE = 1 / 4;
/** New requests from one address with tokens that are no JSON Web Tokens: these are the easiest to make up, and few are real. */
const OPAQUE_RATE_OF_ADDRESS: TokenRate = { burst: 2, refill: 10_000 };
/** The same for all addresses together: a part of the common rate. */
const RATE_OF_OPAQUE: TokenRate = { burst: 20, refill: 100 };
/** Limit of addresses, of each kind, with a rate; the least recently used one is dropped first. */
const MAX_ADDRESSES = 4096;
/** Tolerated difference between the clocks of issuer and agent. */
const CLOCK_SKEW_MS = 60_000;

const TOKENS = '/apis/authentication.k8s.io/v1/tokenreviews';
const ACCESS = '/apis/authorization.k8s.io/v1/subjectaccessreviews';

/** The user of a TokenReview, in the fields that a SubjectAccessReview takes. */
interface User {
  readonly kind: 'user';
  readonly username: string;
  readonly uid: string | undefined;
  readonly groups: readonly unknown[];
  readonly extra: unknown;
}

type ReviewedUser = User | Extract<AccessVerdict, { kind: 'unknown token' | 'undecided' }>;

export class AccessReviews implements Access {
  readonly #options: AccessReviewsOptions;
  readonly #users: AnswerCache<ReviewedUser>;
  readonly #verdicts: AnswerCache<AccessVerdict>;
  readonly #rate: TokenBucket;
  readonly #rateOfTrusted: TokenBucket;
  readonly #rateOfOpaque: TokenBucket;
  readonly #rateOf = new Map<string, Readonly<Record<'signed' | 'opaque', TokenBucket>>>();
  readonly #rateOfTrustedAddress = new Map<string, TokenBucket>();
  /** Hashes of tokens that were admitted once, the oldest first: a flood of others does not keep them out when their result expires. */
  readonly #admitted = new Set<string>();

  constructor(options: AccessReviewsOptions) {
    const { clock, rate = RATE } = options;
    this.#options = options;
    this.#users = new AnswerCache({ clock, maxEntries: MAX_CACHED, ttl: ({ kind }) => ttlOf(kind === 'user') });
    this.#verdicts = new AnswerCache({ clock, maxEntries: MAX_CACHED, ttl: ({ kind }) => ttlOf(kind === 'allowed') });
    this.#rate = new TokenBucket(rate, clock.now());
    this.#rateOfTrusted = new TokenBucket(rate, clock.now());
    this.#rateOfOpaque = new TokenBucket(RATE_OF_OPAQUE, clock.now());
  }

  /** Rejects only with the signal's reason; the reviews go on for other callers that wait for them. */
  async verdict({ token, path, from }: AccessQuestion, signal: AbortSignal): Promise<AccessVerdict> {
    const owner = createHash('sha256').update(token).digest('base64');
    const key = `${owner} ${path}`;
    const known = this.#verdicts.get(key);
    if (known !== undefined) return await unlessAborted(known, signal);
    const claims = claimsOf(token);
    const why = this.#refusal(claims);
    if (why !== undefined) return { kind: 'unknown token', why };
    if (!this.#admitted.has(owner) && !this.#mayReview(from, claims === undefined)) return BUSY;
    const verdict = this.#verdicts.load(key, async () => await this.#review(token, owner, path));
    return await unlessAborted(verdict, signal);
  }

  /** The reason why a token cannot be valid, as a clause; undefined when only the API server can decide. */
  #refusal(claims: TokenClaims | undefined): string | undefined {
    const { audiences, clock } = this.#options;
    // The name of the API server's own audience is not known here, and for it the API server accepts other kinds of tokens, such as static ones.
    const takesOwn = audiences.includes('');
    if (claims === undefined) return takesOwn ? undefined : 'it is no JSON Web Token (RFC 7519)';
    const { exp, aud, iss } = claims;
    if (typeof iss !== 'string' || iss === '') return 'it names no issuer';
    if (typeof exp === 'number' && exp * 1000 < clock.wall() - CLOCK_SKEW_MS) return 'it has expired';
    const madeFor: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
    if (takesOwn || madeFor.some((one) => typeof one === 'string' && audiences.includes(one))) return undefined;
    return `it is not made for the audience ${audiences.join(' or ')}`;
  }

  /** Whether the rates allow one more review for this address; counts it. */
  #mayReview(from: string, isOpaque: boolean): boolean {
    const { clock, rate: { burst, refill } = RATE, isTrusted } = this.#options;
    const now = clock.now();
    if (isTrusted?.(from) === true) {
      const part = { burst: Math.ceil(burst * TRUSTED_SHARE), refill: refill / TRUSTED_SHARE };
      const ofTrusted = bucketOf(this.#rateOfTrustedAddress, from, () => new TokenBucket(part, now));
      return ofTrusted.take(now) && this.#rateOfTrusted.take(now);
    }
    const ofAddress = bucketOf(this.#rateOf, from, () => ({
      signed: new TokenBucket(RATE_OF_ADDRESS, now),
      opaque: new TokenBucket(OPAQUE_RATE_OF_ADDRESS, now),
    }));
    if (isOpaque && !(ofAddress.opaque.take(now) && this.#rateOfOpaque.take(now))) return false;
    return ofAddress.signed.take(now) && this.#rate.take(now);
  }

  async #review(token: string, owner: string, path: string): Promise<AccessVerdict> {
    const user = await (this.#users.get(owner) ?? this.#users.load(owner, async () => await this.#userOf(token)));
    const verdict = user.kind === 'user' ? await this.#mayGet(user, path) : user;
    this.#remember(owner, verdict);
    return verdict;
  }

  #remember(owner: string, { kind }: AccessVerdict): void {
    if (kind !== 'allowed' && kind !== 'unknown token') return;
    this.#admitted.delete(owner);
    if (kind === 'unknown token') return;
    this.#admitted.add(owner);
    const [oldest] = this.#admitted;
    if (this.#admitted.size > MAX_CACHED && oldest !== undefined) this.#admitted.delete(oldest);
  }

  async #userOf(token: string): Promise<ReviewedUser> {
    let known: ReviewedUser = { kind: 'unknown token', why: 'no audience is accepted' };
    for (const audience of this.#options.audiences) {
      known = await this.#reviewToken(token, audience);
      if (known.kind !== 'unknown token') return known;
    }
    return known;
  }

  async #reviewToken(token: string, audience: string): Promise<ReviewedUser> {
    const spec = { token, ...(audience === '' ? {} : { audiences: [audience] }) };
    const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec };
    const status = await this.#post(TOKENS, body);
    if (status instanceof Error) {
      // An error may repeat the token.
      return undecided(status.message.replaceAll(token, '(the token)'));
    }
    const { username, uid, groups, extra } = fieldsOf(status.user);
    if (status.authenticated !== true || typeof username !== 'string' || username === '') {
      const error = typeof status.error === 'string' ? status.error.replaceAll(token, '(the token)') : '';
      return { kind: 'unknown token', why: error || 'the API server does not know it' };
    }
    // An API server that does not know audiences accepts the token for its own, and names none (TokenReviewStatus.audiences).
    const isMeant = audience === '' || (Array.isArray(status.audiences) && status.audiences.includes(audience));
    if (!isMeant) return { kind: 'unknown token', why: `it is not made for the audience ${audience}` };
    const name = typeof uid === 'string' ? uid : undefined;
    return { kind: 'user', username, uid: name, groups: Array.isArray(groups) ? groups : [], extra };
  }

  async #mayGet({ username, uid, groups, extra }: User, path: string): Promise<AccessVerdict> {
    const spec = { user: username, uid, groups, extra, nonResourceAttributes: { path, verb: 'get' } };
    const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec };
    const status = await this.#post(ACCESS, body);
    if (status instanceof Error) return undecided(status.message);
    if (status.allowed === true) return { kind: 'allowed', user: username };
    const { reason, evaluationError } = status;
    const reasons = [reason, evaluationError].filter((text) => typeof text === 'string' && text !== '');
    return { kind: 'forbidden', user: username, why: reasons.join('; ') };
  }

  /** Creates a review; returns its `status`, or the error. */
  async #post(path: string, body: object): Promise<Readonly<Record<string, unknown>> | Error> {
    const { client, clock, signal } = this.#options;
    const late = new AbortController();
    const cancel = clock.after(REVIEW_TIMEOUT_MS, () =>
      late.abort(new Error(`no answer within ${REVIEW_TIMEOUT_MS / 1000} s`)),
    );
    try {
      const either = AbortSignal.any([signal, late.signal]);
      const opened = await unlessAborted(client(), either);
      const answer = await unlessAborted(opened.write({ method: 'POST', path, body }, either), either);
      return fieldsOf(fieldsOf(answer).status);
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    } finally {
      cancel();
    }
  }
}

/** Claims of a JSON Web Token, not verified. */
interface TokenClaims {
  readonly iss?: unknown;
  readonly aud?: unknown;
  /** Seconds since 1970. */
  readonly exp?: unknown;
}

/** The claims of a signed token in the compact form (RFC 7515, section 3.1); undefined for another form. */
function claimsOf(token: string): TokenClaims | undefined {
  const [header = '', payload = '', signature = '', ...more] = token.split('.');
  if (signature === '' || more.length > 0) return undefined;
  const [head, claims] = [jsonIn(header), jsonIn(payload)];
  return head !== undefined && 'alg' in head ? claims : undefined;
}

function jsonIn(base64url: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(base64url, 'base64url').toString());
    return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : undefined;
  } catch {
    return undefined;
  }
}

/** The entry of an address, made when there is none. Beyond MAX_ADDRESSES the least recently used address is dropped. */
function bucketOf<T>(byAddress: Map<string, T>, address: string, make: () => T): T {
  const value = byAddress.get(address) ?? make();
  byAddress.delete(address);
  byAddress.set(address, value);
  const [oldest] = byAddress.keys();
  if (byAddress.size > MAX_ADDRESSES && oldest !== undefined) byAddress.delete(oldest);
  return value;
}

function ttlOf(isPositive: boolean): number {
  return isPositive ? POSITIVE_TTL_MS : NEGATIVE_TTL_MS;
}

function undecided(why: string): { readonly kind: 'undecided'; readonly why: string } {
  return { kind: 'undecided', why: `the API server gave no review: ${why}` };
}

const BUSY: AccessVerdict = {
  kind: 'undecided',
  why: 'too many new tokens came at once: ask again in a second',
};

interface AnswerCacheOptions<T> {
  readonly clock: Clock;
  /** Milliseconds for which an answer counts. */
  readonly ttl: (answer: T) => number;
  /** Beyond this number of answers and pending requests the oldest is evicted. */
  readonly maxEntries: number;
}

interface CachedAnswer<T> {
  readonly answer: Promise<T>;
  /** In the clock's milliseconds; infinite until the answer has come. */
  until: number;
}

/** Caches answers by key. Concurrent requests for one key share one load, and the number of entries is bounded. */
export class AnswerCache<T> {
  readonly #options: AnswerCacheOptions<T>;
  readonly #kept = new Map<string, CachedAnswer<T>>();

  constructor(options: AnswerCacheOptions<T>) {
    this.#options = options;
  }

  /** Cached answers and pending requests. */
  get size(): number {
    return this.#kept.size;
  }

  /** The cached or pending answer; undefined when it must be loaded. */
  get(key: string): Promise<T> | undefined {
    const kept = this.#kept.get(key);
    return kept !== undefined && kept.until > this.#options.clock.now() ? kept.answer : undefined;
  }

  /** Loads the answer and caches it. A load that rejects is not cached. */
  load(key: string, load: () => Promise<T>): Promise<T> {
    const { clock, ttl } = this.#options;
    const answer = load();
    const kept: CachedAnswer<T> = { answer, until: Number.POSITIVE_INFINITY };
    // Deleted first: an entry that is set again would keep its old place in the order of eviction.
    this.#kept.delete(key);
    this.#makeRoom();
    this.#kept.set(key, kept);
    answer.then(
      (value) => {
        kept.until = clock.now() + ttl(value);
      },
      () => {
        if (this.#kept.get(key) === kept) this.#kept.delete(key);
      },
    );
    return answer;
  }

  #makeRoom(): void {
    if (this.#kept.size < this.#options.maxEntries) return;
    const now = this.#options.clock.now();
    for (const [key, { until }] of this.#kept) if (until <= now) this.#kept.delete(key);
    for (const key of this.#kept.keys()) {
      if (this.#kept.size < this.#options.maxEntries) return;
      this.#kept.delete(key);
    }
  }
}
