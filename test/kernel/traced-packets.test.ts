/** Events of a trace are put together packet by packet, whatever ids they have. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeMessages } from '../../native/netlink.ts';
import { decodeTrace, type TraceEvent } from '../../native/nft/trace.ts';
import { PacketCollector } from '../../src/kernel/traced-packets.ts';
import { TRACE } from '../helpers/kernel/recorded-trace.ts';

const NOW = Date.UTC(2026, 10, 22, 12);

const EVENTS: readonly TraceEvent[] = TRACE.map((datagram) => {
  const [message] = decodeMessages(datagram, datagram.length);
  const event = message && decodeTrace(datagram, message);
  assert.ok(event);
  return event;
});
const [FIRST, , , JUMP, TRANSLATED, FORWARDED, DROPPED] = EVENTS;

interface Change {
  readonly id?: number;
  readonly identification?: number;
  readonly input?: number;
  readonly chain?: string;
}

/** The same event of another packet. */
function changed(event: TraceEvent | undefined, { id, identification, input, chain }: Change): TraceEvent {
  assert.ok(event);
  const network = event.packet && Buffer.from(event.packet.network);
  if (network !== undefined && identification !== undefined) network.writeUInt16BE(identification, 4);
  const packet = event.packet && { ...event.packet, network: network ?? event.packet.network };
  return {
    ...event,
    id: id ?? event.id,
    chain: chain ?? event.chain,
    packet: packet && { ...packet, input: input ?? packet.input },
  };
}

function collected(events: readonly (TraceEvent | undefined)[], most = 10): string[] {
  const collector = new PacketCollector({ family: 'ip', protocol: 'TCP', most });
  for (const event of events) {
    assert.ok(event);
    collector.add(event, NOW);
  }
  return collector.packets.map(({ steps }) =>
    steps
      .map((step) =>
        step.kind === 'packet'
          ? `[${step.hook ?? 'changed'} ${step.packet.destination}:${step.packet.port}]`
          : `${step.chain}/${step.verdict}`,
      )
      .join(' '),
  );
}

const WAY = '[prerouting 10.96.0.11:80] PREROUTING/jump KUBE-X/accept [changed 10.244.1.11:8080] FORWARD/drop';

describe('packets of a trace', () => {
  it('have the packet at its entry, the rules, and the packet where it changed; nothing of our own table, nor ends of chains', () => {
    assert.deepEqual(collected(EVENTS), [WAY]);
  });

  it('are one packet although the id changes between hooks', () => {
    const later = [JUMP, TRANSLATED, FORWARDED, DROPPED].map((event) => changed(event, { id: 77 }));
    assert.deepEqual(collected([...EVENTS.slice(0, 3), ...later]), [WAY]);
  });

  it('are two packets although both have the same ids', () => {
    const second = EVENTS.map((event) => changed(event, { identification: 99 }));
    assert.deepEqual(collected([...EVENTS, ...second]), [WAY, WAY]);
  });

  it('do not mix when their events come by turns', () => {
    const second = EVENTS.map((event) => changed(event, { identification: 99, id: 5 }));
    assert.deepEqual(collected(EVENTS.flatMap((event, i) => [event, second[i]])), [WAY, WAY]);
  });

  it('end at a number; the others leave nothing in the last one', () => {
    const second = EVENTS.map((event) => changed(event, { identification: 99 }));
    assert.deepEqual(collected([...EVENTS, ...second], 1), [WAY]);
  });

  it('of other programs are left out', () => {
    const theirs = EVENTS.map((event) => changed(event, { identification: 99 })).slice(3);
    assert.deepEqual(collected(theirs), []);
    assert.deepEqual(collected([...EVENTS, ...theirs]), [WAY]);
  });

  it('that the node sends to itself are one packet, at both hooks', () => {
    const sent = changed(FIRST, { chain: 'sending', input: 0 });
    const back = changed(FIRST, { chain: 'coming', input: 1 });
    assert.deepEqual(collected([sent, back, DROPPED]), [
      '[output 10.96.0.11:80] [prerouting 10.96.0.11:80] FORWARD/drop',
    ]);
    // One that comes by another device is another packet.
    assert.equal(collected([sent, FIRST]).length, 2);
  });
});
