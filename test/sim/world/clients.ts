/**
 * Clients on a simulated node's network. The rules decide about the first packet of a flow; the others follow conntrack, whatever the
 * rules say then. Clients of UDP send until the history ends, those of TCP try until somebody answers.
 */
import { type Address, socketBytes, socketText } from '../../../src/base/address.ts';
import { becomeOf, viewsIn } from '../check/kernel-views.ts';
import { packetsTo, type Sender, type SentPacket } from '../check/packets.ts';
import type { FrontendVersions, Versions } from '../check/versions.ts';
import { NOBODY, type SimTime } from '../engine/time.ts';
import type { FlowFacts } from '../kernel/conntrack.ts';
import type { SimKernel } from '../kernel/kernel.ts';
import type { SimNetwork } from './platform.ts';

export interface ClientsOptions {
  readonly kernel: SimKernel;
  readonly versions: Versions;
  readonly senders: readonly Sender[];
  readonly time: SimTime;
  readonly network: SimNetwork;
}

/** Milliseconds between two packets of a client. */
const AGAIN = 7000;
/** Seconds that conntrack keeps a flow of UDP, and an unanswered connection. */
const KEPT = { UDP: 120, TCP: 120, SCTP: 30 } as const;
const FIRST_PORT = 40_000;

interface Client {
  readonly at: FrontendVersions;
  readonly sent: SentPacket;
  readonly source: FlowFacts['source'];
}

export class Clients {
  readonly #options: ClientsOptions;
  #count = 0;

  constructor(options: ClientsOptions) {
    this.#options = options;
  }

  /** Another client begins to send; `variant` chooses it, and its frontend. */
  start(variant: number): void {
    const { versions, senders } = this.#options;
    const frontends = [...versions.frontends];
    const at = frontends[variant % Math.max(1, frontends.length)];
    if (at === undefined) return;
    const packets = packetsTo(at.at, senders, versions.localAddresses(at.at.family));
    const sent = packets[Math.floor(variant / frontends.length) % packets.length];
    if (sent === undefined) return;
    this.#count += 1;
    this.#send({ at, sent, source: { address: sent.packet.source, port: FIRST_PORT + this.#count } });
  }

  /** Flows that go where no endpoint is that may answer, each for people: none is left when an agent had time to delete them. */
  stale(): readonly string[] {
    const { kernel, versions } = this.#options;
    const found: string[] = [];
    for (const { at, owners } of versions.frontends) {
      // A node port is served on some addresses of the node only, and a frontend that is gone may be that of another program.
      if (at.address === undefined || owners.at(-1) === undefined) continue;
      const targets = this.#targets({ at, owners });
      for (const flow of kernel.conntrack.flows) {
        const { protocol, destination, answers } = flow;
        if (protocol !== at.protocol || destination.address !== at.address || destination.port !== at.port) continue;
        if (protocol !== 'UDP' && (flow.isAnswered || isUntranslated(flow))) continue;
        if (targets.has(socketBytes(answers.address, answers.port))) continue;
        found.push(`${protocol} ${textOf(flow.source)} -> ${textOf(destination)} is answered by ${textOf(answers)}`);
      }
    }
    return found;
  }

  #send(client: Client): void {
    const { kernel, time } = this.#options;
    const { packet } = client.sent;
    const flow = {
      protocol: packet.protocol,
      source: client.source,
      destination: { address: packet.destination, port: packet.port },
    };
    const answers = kernel.conntrack.find(flow)?.answers ?? this.#destinationOf(client);
    const isAnswered =
      answers !== undefined &&
      !this.#options.network.isSilent(answers.address) &&
      this.#targets(client.at).has(socketBytes(answers.address, answers.port));
    if (answers !== undefined) kernel.conntrack.send({ ...flow, answers, isAnswered }, KEPT[packet.protocol]);
    // A connection that was opened goes on until its ends close it, and no rule matters.
    if (packet.protocol === 'UDP' || !isAnswered) time.after(AGAIN, () => this.#send(client), NOBODY);
  }

  /** Where the rules send the first packet; undefined: nowhere, and conntrack forgets it. */
  #destinationOf({ sent: { packet }, at, source }: Client): FlowFacts['answers'] | undefined {
    const { kernel, versions } = this.#options;
    const { family } = at.at;
    const facts = { localAddresses: versions.localAddresses(family), remembered: new Set<string>() };
    const { fates } = becomeOf(viewsIn(kernel.views(family)), packet, facts);
    const fate = fates[source.port % Math.max(1, fates.length)];
    if (fate?.kind === 'balanced') return endOf(fate.backend);
    // To a machine that has the address, or none has it.
    return fate === undefined || fate.kind === 'untouched'
      ? { address: packet.destination, port: packet.port }
      : undefined;
  }

  /** The endpoints that may answer at a frontend now, as bytes. */
  #targets({ at, owners }: Pick<FrontendVersions, 'at' | 'owners'>): ReadonlySet<string> {
    const port = this.#options.versions.portAt({ at, owners });
    if (port === undefined) return new Set();
    const backends = [...port.cluster, ...port.local].map(({ address, port: number }) => socketBytes(address, number));
    const also = port.alsoAnswering.map(bytesOf);
    return new Set([...backends, ...also, ...(port.flowTargets?.all ?? [])]);
  }
}

function isUntranslated({ destination, answers }: FlowFacts): boolean {
  return destination.address === answers.address && destination.port === answers.port;
}

function textOf({ address, port }: FlowFacts['source']): string {
  return socketText(socketBytes(address, port));
}

/** `10.244.1.7:8080`, `[fd00::7]:8080` */
function endOf(text: string): FlowFacts['answers'] {
  const at = text.lastIndexOf(':');
  return { address: text.slice(0, at).replace(/^\[|\]$/g, '') as Address, port: Number(text.slice(at + 1)) };
}

function bytesOf(text: string): string {
  const { address, port } = endOf(text);
  return socketBytes(address, port);
}
