/**
 * Whether the API server admits who sends a token: a TokenReview (authentication.k8s.io/v1) says whose it is, and a SubjectAccessReview
 * (authorization.k8s.io/v1) whether that user may `get` a nonResourceURL. These are the only objects that are written for it, and no API
 * server stores them.
 *
 * A token is passed on and forgotten: what is kept is keyed by its SHA-256. A yes counts for a minute, anything else for a second. A flood
 * of unknown tokens costs the API server a bounded number of reviews, and does not push out those that are kept. Each address has a rate
 * of its own before the common one, so that made-up tokens of one pod do not hold up the tokens of others; and a token that cannot be
 * valid by what it says of itself costs no review.
 */
import { createHash } from 'node:crypto';
import { type Clock, unlessAborted } from '../../base/clock.ts';
import { TokenBucket, type TokenRate } from '../../base/token-bucket.ts';
import type { Access, AccessQuestion, AccessVerdict } from '../../proxy/model/access.ts';
import { type ApiClient, fieldsOf } from './client.ts';

export interface AccessReviewsOptions {
  /** Called at each review. A client that cannot be had makes the question undecided; the next question asks for one again. */
  readonly client: () => Promise<Pick<ApiClient, 'write'>>;
  /**
   * A token must be made for one of these audiences; "" is the API server's own. Each of them is one review, until one says yes, because the
   * name of the API server's own audience is not known here (TokenReviewSpec.audiences).
   */
  readonly audiences: readonly string[];
  readonly clock: Clock;
  /** Ends reviews that are under way. */
  readonly signal: AbortSignal;
  /** New questions of those who were not admitted before; each costs one to three reviews. */
  readonly rate?: TokenRate;
  /** Whether the clients at this address are to be expected: a rate as high as the common one is reserved for them, a quarter of it for each. */
  readonly isTrusted?: (address: string) => boolean;
}

/** Milliseconds for which a yes counts. */
const KEPT = 60_000;
/** Milliseconds for which anything else counts: a right that was just given is seen at once. */
const KEPT_BRIEFLY = 1000;
/** Milliseconds for one review. */
const REVIEW_TIMEOUT_MS = 10_000;
/** Verdicts, and users, that are kept; some hundred bytes each. */
const MAX_KEPT = 4096;
const RATE: TokenRate = { burst: 200, refill: 20 };
/** New questions from one address: a small part of what all may ask. */
const RATE_OF_ADDRESS: TokenRate = { burst: 4, refill: 5000 };
/** The part of the reserved rate that one expected address may take: others have their reviews while a program there makes tokens up. */
const TRUSTED_PART = 4;
/** New questions from one address with tokens that are no JSON Web Tokens, which are the easiest to make up, and few are real. */
const OPAQUE_RATE_OF_ADDRESS: TokenRate = { burst: 2, refill: 10_000 };
/** The same of all addresses: they take at most a part of the common rate. */
const RATE_OF_OPAQUE: TokenRate = { burst: 20, refill: 100 };
/** Addresses, of each kind, whose rate is kept; the one that asked longest ago is forgotten first. */
const MAX_ADDRESSES = 4096;
/** Milliseconds by which clocks may differ. */
const CLOCK_SKEW_MS = 60_000;

const TOKENS = '/apis/authentication.k8s.io/v1/tokenreviews';
const ACCESS = '/apis/authorization.k8s.io/v1/subjectaccessreviews';

/** What a TokenReview says of a user, as a SubjectAccessReview wants to have it. */
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
  /** Owners that were admitted once, the oldest first: a flood of others does not keep them out when their yes expires. */
  readonly #admitted = new Set<string>();

  constructor(options: AccessReviewsOptions) {
    const { clock, rate = RATE } = options;
    this.#options = options;
    this.#users = new AnswerCache({ clock, most: MAX_KEPT, keeps: ({ kind }) => keptFor(kind === 'user') });
    this.#verdicts = new AnswerCache({ clock, most: MAX_KEPT, keeps: ({ kind }) => keptFor(kind === 'allowed') });
    this.#rate = new TokenBucket(rate, clock.now());
    this.#rateOfTrusted = new TokenBucket(rate, clock.now());
    this.#rateOfOpaque = new TokenBucket(RATE_OF_OPAQUE, clock.now());
  }

  /** Rejects only with the signal's reason; the reviews go on for others who ask the same. */
  async verdict({ token, path, from }: AccessQuestion, signal: AbortSignal): Promise<AccessVerdict> {
    const owner = createHash('sha256').update(token).digest('base64');
    const key = `${owner} ${path}`;
    const known = this.#verdicts.get(key);
    if (known !== undefined) return await unlessAborted(known, signal);
    const claims = claimsOf(token);
    const why = this.#misfit(claims);
    if (why !== undefined) return { kind: 'unknown token', why };
    if (!this.#admitted.has(owner) && !this.#mayReview(from, claims === undefined)) return BUSY;
    const asked = this.#verdicts.ask(key, async () => await this.#find(token, owner, path));
    return await unlessAborted(asked, signal);
  }

  /** Why a token cannot be valid, as a clause; undefined: only the API server can tell. */
  #misfit(claims: TokenClaims | undefined): string | undefined {
    const { audiences, clock } = this.#options;
    // The API server's own audience is not known here, and with it other kinds of tokens are taken, such as static ones.
    const takesOwn = audiences.includes('');
    if (claims === undefined) return takesOwn ? undefined : 'it is no JSON Web Token (RFC 7519)';
    const { exp, aud, iss } = claims;
    if (typeof iss !== 'string' || iss === '') return 'it names no issuer';
    if (typeof exp === 'number' && exp * 1000 < clock.wall() - CLOCK_SKEW_MS) return 'it has expired';
    const madeFor: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
    if (takesOwn || madeFor.some((one) => typeof one === 'string' && audiences.includes(one))) return undefined;
    return `it is not made for the audience ${audiences.join(' or ')}`;
  }

  /** Whether the API server may be asked about one more token from this address; counts it. */
  #mayReview(from: string, isOpaque: boolean): boolean {
    const { clock, rate: { burst, refill } = RATE, isTrusted } = this.#options;
    const now = clock.now();
    if (isTrusted?.(from) === true) {
      const part = { burst: Math.ceil(burst / TRUSTED_PART), refill: refill * TRUSTED_PART };
      const ofTrusted = kept(this.#rateOfTrustedAddress, from, () => new TokenBucket(part, now));
      return ofTrusted.take(now) && this.#rateOfTrusted.take(now);
    }
    const ofAddress = kept(this.#rateOf, from, () => ({
      signed: new TokenBucket(RATE_OF_ADDRESS, now),
      opaque: new TokenBucket(OPAQUE_RATE_OF_ADDRESS, now),
    }));
    if (isOpaque && !(ofAddress.opaque.take(now) && this.#rateOfOpaque.take(now))) return false;
    return ofAddress.signed.take(now) && this.#rate.take(now);
  }

  async #find(token: string, owner: string, path: string): Promise<AccessVerdict> {
    const user = await (this.#users.get(owner) ?? this.#users.ask(owner, async () => await this.#userOf(token)));
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
    if (this.#admitted.size > MAX_KEPT && oldest !== undefined) this.#admitted.delete(oldest);
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
    const status = await this.#review(TOKENS, body);
    if (status instanceof Error) {
      // An error may repeat what was sent.
      return undecided(status.message.replaceAll(token, '(the token)'));
    }
    const { username, uid, groups, extra } = fieldsOf(status.user);
    if (status.authenticated !== true || typeof username !== 'string' || username === '') {
      const said = typeof status.error === 'string' ? status.error.replaceAll(token, '(the token)') : '';
      return { kind: 'unknown token', why: said || 'the API server does not know it' };
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
    const status = await this.#review(ACCESS, body);
    if (status instanceof Error) return undecided(status.message);
    if (status.allowed === true) return { kind: 'allowed', user: username };
    const { reason, evaluationError } = status;
    const said = [reason, evaluationError].filter((text) => typeof text === 'string' && text !== '');
    return { kind: 'forbidden', user: username, why: said.join('; ') };
  }

  /** The field `status` of the answer, or why there is none. */
  async #review(path: string, body: object): Promise<Readonly<Record<string, unknown>> | Error> {
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

/** Claims of a JSON Web Token that nobody has verified. */
interface TokenClaims {
  readonly iss?: unknown;
  readonly aud?: unknown;
  /** Seconds since 1970. */
  readonly exp?: unknown;
}

/** Of a signed token in the compact form (RFC 7515, section 3.1); undefined: the token has another form. */
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

/** The value of an address, made when there is none; the address that asked longest ago is forgotten beyond MAX_ADDRESSES. */
function kept<T>(byAddress: Map<string, T>, address: string, make: () => T): T {
  const value = byAddress.get(address) ?? make();
  byAddress.delete(address);
  byAddress.set(address, value);
  const [oldest] = byAddress.keys();
  if (byAddress.size > MAX_ADDRESSES && oldest !== undefined) byAddress.delete(oldest);
  return value;
}

function keptFor(isYes: boolean): number {
  return isYes ? KEPT : KEPT_BRIEFLY;
}

function undecided(why: string): { readonly kind: 'undecided'; readonly why: string } {
  return { kind: 'undecided', why: `the API server gave no review: ${why}` };
}

const BUSY: AccessVerdict = {
  kind: 'undecided',
  why: 'too many new tokens came at once: ask again in a second',
};

// Answers of somebody else, kept for a while: the same question is asked once at a time, and the number that is kept is bounded.

interface AnswerCacheOptions<T> {
  readonly clock: Clock;
  /** Milliseconds for which an answer counts. */
  readonly keeps: (answer: T) => number;
  /** Answers and open questions at most. Beyond that the oldest is forgotten, and asked again when it is needed. */
  readonly most: number;
}

interface CachedAnswer<T> {
  readonly answer: Promise<T>;
  /** In the clock's milliseconds; infinite until the answer has come. */
  until: number;
}

export class AnswerCache<T> {
  readonly #options: AnswerCacheOptions<T>;
  readonly #kept = new Map<string, CachedAnswer<T>>();

  constructor(options: AnswerCacheOptions<T>) {
    this.#options = options;
  }

  /** Answers that are kept and questions that are open, at most `most`. */
  get size(): number {
    return this.#kept.size;
  }

  /** The answer, or the one that somebody waits for already; undefined where it must be asked for. */
  get(key: string): Promise<T> | undefined {
    const kept = this.#kept.get(key);
    return kept !== undefined && kept.until > this.#options.clock.now() ? kept.answer : undefined;
  }

  /** Asks, and keeps the answer. A question that rejects is not kept. */
  ask(key: string, ask: () => Promise<T>): Promise<T> {
    const { clock, keeps } = this.#options;
    const answer = ask();
    const kept: CachedAnswer<T> = { answer, until: Number.POSITIVE_INFINITY };
    // At the end of the order also where the key was there.
    this.#kept.delete(key);
    this.#makeRoom();
    this.#kept.set(key, kept);
    answer.then(
      (value) => {
        kept.until = clock.now() + keeps(value);
      },
      () => {
        if (this.#kept.get(key) === kept) this.#kept.delete(key);
      },
    );
    return answer;
  }

  #makeRoom(): void {
    if (this.#kept.size < this.#options.most) return;
    const now = this.#options.clock.now();
    for (const [key, { until }] of this.#kept) if (until <= now) this.#kept.delete(key);
    for (const key of this.#kept.keys()) {
      if (this.#kept.size < this.#options.most) return;
      this.#kept.delete(key);
    }
  }
}
