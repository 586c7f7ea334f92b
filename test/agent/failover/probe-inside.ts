/** In a namespace: asks each `ADDRESS PORT MILLISECONDS` of its arguments, one after another, and prints the replies as JSON. */
import { tcpProbe } from '../../../src/agent/failover/probe.ts';
import type { Address } from '../../../src/base/address.ts';
import { realClock } from '../../../src/base/clock.ts';

const probe = tcpProbe(realClock);
const replies: string[] = [];
for (const asked of process.argv.slice(2)) {
  const [address = '', port = '', milliseconds = ''] = asked.split(' ');
  replies.push(await probe({ address: address as Address, port: Number(port) }, Number(milliseconds)));
}
process.stdout.write(JSON.stringify(replies));
