/**
 * nftables of one network namespace at the level of netlink messages: requests, transactions with generations, listings, and what it tells
 * the multicast group (nfnetlink.c, nf_tables_api.c). It outlives the processes that open sockets to it.
 */
import { EBUSY, EINVAL, ERESTART } from '../../../../native/errno.ts';
import { attribute, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, nested } from '../../../../native/netlink.ts';
import {
  NFNL_BATCH_GENID,
  NFNL_MSG_BATCH_END,
  NFT_MSG_DELCHAIN,
  NFT_MSG_DELRULE,
  NFT_MSG_DELSET,
  NFT_MSG_DELSETELEM,
  NFT_MSG_DELTABLE,
  NFT_MSG_GETRULE,
  NFT_MSG_GETSET,
  NFT_MSG_GETSETELEM,
  NFT_MSG_GETTABLE,
  NFT_MSG_NEWRULE,
  NFT_MSG_NEWSET,
  NFT_MSG_NEWSETELEM,
  NFT_MSG_NEWTABLE,
  NFTA_DATA_VALUE,
  NFTA_SET_ELEM_KEY,
} from '../../../../native/nft/constants.ts';
import type { TableId } from '../../../../native/nft/request.ts';
import {
  NFT_MSG_GETCHAIN,
  NFT_MSG_GETGEN,
  NFT_MSG_NEWCHAIN,
  NFT_MSG_NEWGEN,
  NFTA_GEN_ID,
  NFTA_GEN_PROC_NAME,
  NFTA_GEN_PROC_PID,
  type Writer,
} from '../../../../native/nftables.ts';
import { outcomeMessage, Refused, textAttribute, u32, u64 } from '../netlink/format.ts';
import { listingOf } from '../netlink/listing.ts';
import { SimSocket } from '../netlink/socket.ts';
import { type KernelPart, momentary, type Refusal } from '../netlink/transports.ts';
import { type Change, Draft } from './draft.ts';
import { deleteRule, newRule } from './draft-rules.ts';
import { deleteElements, deleteSet, newElements, newSet } from './draft-sets.ts';
import { type Asked, isTransaction, NFTA_SET_ELEM_TIMEOUT, objectHeader, objectMessage, requestsIn } from './format.ts';
import { answersTo, listedBy, stamped } from './questions.ts';
import { type Ruleset, tableKey } from './ruleset.ts';

/** A listener of the multicast group. */
export interface GroupMember {
  readonly socket: SimSocket;
  /** The port whose writes it does not hear about, but for their generations. */
  readonly not: number | undefined;
}

/** A transaction that changed the ruleset. */
export interface NftCommit extends Writer {
  readonly generation: number;
  /** The port of its socket. */
  readonly port: number;
}

/** A transaction that the kernel took from a program. */
export interface TakenTransaction {
  /** Of its socket. */
  readonly port: number;
  readonly requests: readonly Asked[];
  /** Of each request; undefined: it was not refused. */
  readonly refusals: readonly (Refused | undefined)[];
  /** It was written for another generation: none of its requests was looked at. */
  readonly isStale: boolean;
  /** The ruleset before. */
  readonly before: Ruleset;
}

export interface NftKernelOptions {
  /** Milliseconds of simulated time. */
  readonly now: () => number;
  /** Bytes of the longest datagram of a listing. */
  readonly longestPart: number;
}

const APPLIED: Readonly<Record<number, (draft: Draft, asked: Asked, now: number) => void>> = {
  [NFT_MSG_NEWTABLE]: (draft, asked) => draft.newTable(asked),
  [NFT_MSG_DELTABLE]: (draft, asked) => draft.deleteTable(asked),
  [NFT_MSG_NEWCHAIN]: (draft, asked) => draft.newChain(asked),
  [NFT_MSG_DELCHAIN]: (draft, asked) => draft.deleteChain(asked),
  [NFT_MSG_NEWRULE]: newRule,
  [NFT_MSG_DELRULE]: deleteRule,
  [NFT_MSG_NEWSET]: newSet,
  [NFT_MSG_DELSET]: deleteSet,
  [NFT_MSG_NEWSETELEM]: newElements,
  [NFT_MSG_DELSETELEM]: deleteElements,
};

export class NftKernelState implements KernelPart {
  readonly name = 'nftables';
  readonly #options: NftKernelOptions;
  ruleset: Ruleset = new Map();
  #generation = 1;
  #tables = 0;
  #ports = 0;
  #last: NftCommit | undefined;
  #onCommit: ((commit: NftCommit) => void)[] = [];
  readonly members = new Set<GroupMember>();
  /** Called after each transaction, refused or not, but for those of which a fault decided. */
  onTaken: (transaction: TakenTransaction) => void = () => undefined;
  onClosed: (port: number) => void = () => undefined;

  constructor(options: NftKernelOptions) {
    this.#options = options;
  }

  get generation(): number {
    return this.#generation;
  }

  /** The newest transaction. */
  get last(): NftCommit | undefined {
    return this.#last;
  }

  onCommit(call: (commit: NftCommit) => void): void {
    this.#onCommit.push(call);
  }

  /** `room`: bytes of its receive buffer. */
  socket(room: number): SimSocket {
    this.#ports += 1;
    // Far from the numbers of processes.
    return new SimSocket(0x1000_0000 + this.#ports, room);
  }

  /** The kernel closes a socket: tables that belong to it go. */
  closed({ port }: SimSocket): void {
    const kept = [...this.ruleset].filter(([, { owner }]) => owner !== port);
    if (kept.length < this.ruleset.size) this.ruleset = new Map(kept);
    this.onClosed(port);
  }

  take(datagram: Uint8Array, socket: SimSocket, by: Writer, refusal?: Refusal): void {
    const requests = requestsIn(datagram);
    if (isTransaction(requests)) this.#transact(requests, { socket, by, refusal });
    else for (const asked of requests) this.#answer(asked, { socket, by, refusal });
  }

  summaryOf(datagram: Uint8Array): string {
    const requests = requestsIn(datagram);
    if (isTransaction(requests)) return `transaction of ${requests.length - 2} requests`;
    return `ask for ${QUESTIONS[requests[0]?.type ?? -1] ?? 'something else'}`;
  }

  refusalOf(datagram: Uint8Array, variant: number): Refusal {
    const requests = requestsIn(datagram);
    const isBatch = isTransaction(requests);
    if (isBatch && variant % 2 === 0) return { request: -1, errno: ERESTART };
    const writes = Math.max(1, requests.length - 2);
    return { request: isBatch ? (variant >> 1) % writes : 0, errno: momentary(variant >> 1) };
  }

  /** Another subsystem committed by the same generation: iptables-nft. `changes`: what listeners are told. */
  bump(by: Writer, port: number, changes: readonly Change[] = []): NftCommit {
    this.#generation = (this.#generation + 1) >>> 0 || 1;
    const commit = { ...by, generation: this.#generation, port };
    this.#last = commit;
    this.#tell(changes, commit);
    return commit;
  }

  /** See SimNftables. */
  remember(
    { family, table: name }: TableId,
    set: string,
    { key, seconds }: { readonly key: string; readonly seconds: number },
  ): boolean {
    const table = this.ruleset.get(tableKey(family === 'IPv4' ? 2 : 10, name));
    const before = table?.sets.get(set);
    if (table === undefined || before === undefined) return false;
    const timeout = seconds * 1000;
    const raw = Buffer.concat([
      nested(NFTA_SET_ELEM_KEY, attribute(NFTA_DATA_VALUE, Buffer.from(key, 'latin1'))),
      attribute(NFTA_SET_ELEM_TIMEOUT, u64(timeout)),
    ]);
    const expiresAt = this.#options.now() + timeout;
    const element = { key, end: '', raw, data: undefined, chain: undefined, expiresAt };
    const elements = new Map([...before.elements, [key, element]]);
    const sets = new Map([...table.sets, [set, { ...before, elements }]]);
    this.ruleset = new Map([...this.ruleset, [tableKey(table.family, name), { ...table, sets }]]);
    return true;
  }

  #answer(asked: Asked, { socket, by, refusal }: From): void {
    const { flags, sequence } = asked;
    const outcome = (errno: number, offset?: number) =>
      socket.deliver(outcomeMessage(asked, socket.port, errno, offset));
    if ((flags & NLM_F_REQUEST) === 0) return;
    try {
      if (refusal !== undefined) throw new Refused(refusal.errno);
      if (!asked.isOfNftables) throw new Refused(EINVAL);
      const now = () => ({ ruleset: this.ruleset, generation: this.#generation, time: this.#options.now() });
      if (asked.type !== NFT_MSG_GETGEN && (flags & NLM_F_DUMP) !== 0) {
        if (socket.isListing) throw new Refused(EBUSY);
        const { longestPart: longest } = this.#options;
        socket.list(listingOf(listedBy(asked, now), asked, { port: socket.port, longest }));
        return;
      }
      const header = { flags: 0, sequence, port: socket.port };
      if (asked.type === NFT_MSG_GETGEN)
        socket.deliver(objectMessage(NFT_MSG_NEWGEN, header, this.#generationBody(by)));
      else
        for (const { type, body } of answersTo(asked, now()))
          socket.deliver(objectMessage(type, header, stamped(body, now())));
      if ((flags & NLM_F_ACK) !== 0) outcome(0);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      outcome(error.errno, error.offset);
    }
  }

  #generationBody({ pid, name }: Writer): Buffer {
    return Buffer.concat([
      objectHeader(0, this.#generation),
      attribute(NFTA_GEN_ID, u32(this.#generation)),
      attribute(NFTA_GEN_PROC_PID, u32(pid)),
      textAttribute(NFTA_GEN_PROC_NAME, name.slice(0, 15)),
    ]);
  }

  /** All or nothing. The outcomes are sent after the commit: of each refused request, and of those that ask for theirs (nfnetlink_rcv_skb_batch). */
  #transact(requests: readonly Asked[], { socket, by, refusal }: From): void {
    const [begin, ...rest] = requests;
    if (begin === undefined) return;
    const answer = (asked: Asked, errno: number, offset?: number) =>
      socket.deliver(outcomeMessage(asked, socket.port, errno, offset));
    const generation = begin.fields.number(NFNL_BATCH_GENID) ?? 0;
    const isStale = generation !== 0 && generation !== this.#generation;
    const requestsOfIt = rest.filter(({ isOfNftables }) => isOfNftables);
    const { before, port } = { before: this.ruleset, port: socket.port };
    if (isStale || refusal?.request === -1) {
      answer(begin, isStale ? ERESTART : (refusal?.errno ?? ERESTART));
      if (refusal === undefined) this.onTaken({ port, requests: requestsOfIt, refusals: [], isStale, before });
      return;
    }
    const draft = new Draft(this.ruleset, socket.port, { next: () => ++this.#tables });
    const outcomes: (() => void)[] = [];
    const refusals: (Refused | undefined)[] = [];
    let [isRefused, isWhole] = [false, false];
    for (const [i, asked] of rest.entries()) {
      if (asked.type === NFNL_MSG_BATCH_END && !asked.isOfNftables) {
        isWhole = true;
        if ((asked.flags & NLM_F_ACK) !== 0) outcomes.push(() => answer(asked, 0));
        break;
      }
      const refused = refusal?.request === i ? new Refused(refusal.errno) : this.#apply(draft, asked);
      isRefused ||= refused !== undefined;
      refusals.push(refused);
      if (refused !== undefined || (asked.flags & NLM_F_ACK) !== 0)
        outcomes.push(() => answer(asked, refused?.errno ?? 0, refused?.offset));
    }
    if (isWhole && !isRefused && draft.changes.length > 0) this.#commit(draft, by);
    if (refusal === undefined) this.onTaken({ port, requests: requestsOfIt, refusals, isStale, before });
    for (const tell of outcomes) tell();
  }

  #apply(draft: Draft, asked: Asked): Refused | undefined {
    try {
      const apply = asked.isOfNftables ? APPLIED[asked.type] : undefined;
      if (apply === undefined) throw new Refused(EINVAL);
      apply(draft, asked, this.#options.now());
      return undefined;
    } catch (error) {
      if (error instanceof Refused) return error;
      throw error;
    }
  }

  #commit(draft: Draft, by: Writer): void {
    this.ruleset = draft.tables;
    const commit = this.bump(by, draft.port, draft.changes);
    for (const call of this.#onCommit) call(commit);
  }

  /** What changed, then the new generation with its writer (nf_tables_commit, nft_commit_notify, nf_tables_gen_notify). */
  #tell(changes: readonly Change[], { port, generation, ...by }: NftCommit): void {
    const header = { flags: 0, sequence: 0, port };
    for (const { socket, not } of this.members) {
      if (not !== port)
        for (const part of datagramsOf(
          changes.map(({ type, body }) => objectMessage(type, header, stamped(body(), { generation }))),
        ))
          socket.deliver(part);
      socket.deliver(objectMessage(NFT_MSG_NEWGEN, header, this.#generationBody(by)));
    }
  }
}

const QUESTIONS: Readonly<Record<number, string>> = {
  [NFT_MSG_GETGEN]: 'generation',
  [NFT_MSG_GETTABLE]: 'table',
  [NFT_MSG_GETCHAIN]: 'chains',
  [NFT_MSG_GETRULE]: 'rules',
  [NFT_MSG_GETSET]: 'sets',
  [NFT_MSG_GETSETELEM]: 'elements',
};

interface From {
  readonly socket: SimSocket;
  readonly by: Writer;
  readonly refusal: Refusal | undefined;
}

/** NLMSG_GOODSIZE: messages of one transaction share datagrams of about a page. */
const PAGE = 3776;

function* datagramsOf(messages: readonly Buffer[]): Generator<Buffer> {
  let part: Buffer[] = [];
  let bytes = 0;
  for (const message of messages) {
    if (bytes > 0 && bytes + message.length > PAGE) {
      yield Buffer.concat(part);
      [part, bytes] = [[], 0];
    }
    part.push(message);
    bytes += message.length;
  }
  if (part.length > 0) yield Buffer.concat(part);
}
