/** Files under /proc: locks, sockets, lists of clients, jiffies. The first byte of an input chooses the file. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Address } from '../../../src/base/address.ts';
import { holderIn } from '../../../src/kernel/commands.ts';
import { readListeners } from '../../../src/kernel/listeners.ts';
import { jiffiesIn, sinceLastSeen } from '../../../src/kernel/recent-lists.ts';
import { mutateText } from '../mutate/text.ts';
import { soundAddress, soundPort } from '../sound/text.ts';
import { sure, type Target } from '../target.ts';

const LOCKS = `1: POSIX  ADVISORY  WRITE 812 00:1a:1193 0 EOF
2: FLOCK  ADVISORY  WRITE 4711 00:19:1042 0 EOF
2: -> FLOCK  ADVISORY  WRITE 4712 00:19:1042 0 EOF
`;
const TCP = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 21541 1 0000000000000000 100 0 0 10 0
   1: 00000000000000000000000001000000:0016 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 0 0 0 2
   2: 0B01A8C0:0016 0A01A8C0:D431 01 00000000:00000000 02:000A7214 00000000     0        0 30211 2
`;
const TIMERS = `Timer List Version: v0.9
HRTIMER_MAX_CLOCK_BASES: 8
now at 8142378946 nsecs

cpu: 0
jiffies: 4294894542
`;
const RECENT = `src=10.244.1.7 ttl: 64 last_seen: 4294890000 oldest_pkt: 1 4294890000
src=fd00:0000:0000:0000:0000:0000:0000:0001 ttl: 64 last_seen: 4294890100 oldest_pkt: 2 4294890000, 4294890100
`;
const TEXTS = [LOCKS, TCP, TIMERS, RECENT].map((text) => Buffer.from(text));

const folder = mkdtempSync(join(tmpdir(), 'slicewire-fuzz-'));
for (const name of ['tcp', 'tcp6', 'udp', 'udp6']) writeFileSync(join(folder, name), TCP);

const READERS: readonly ((text: string) => void | Promise<void>)[] = [
  (text) => {
    const pid = holderIn(text, 1042);
    sure(pid === undefined || /^\d{1,10}$/.test(pid), () => `pid: ${pid}`);
  },
  async (text) => {
    writeFileSync(join(folder, 'tcp'), text);
    writeFileSync(join(folder, 'udp6'), text);
    for (const { address, port } of await readListeners(folder)) {
      soundAddress(address, 'listener');
      soundPort(port, 'listener');
    }
  },
  (text) => {
    try {
      const { jiffies, frequency } = jiffiesIn(text);
      sure(
        Number.isFinite(jiffies) && frequency >= 100 && frequency <= 1000,
        () => `jiffies: ${jiffies} at ${frequency}`,
      );
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes('does not tell the time in jiffies')) throw error;
    }
  },
  async (text) => {
    const read = (path: string) => Promise.resolve(path.endsWith('timer_list') ? TIMERS : text);
    const since = await sinceLastSeen(['KUBE-SEP-A'], '10.244.1.7' as Address, read);
    for (const seconds of since.values()) sure(seconds >= 0 && Number.isFinite(seconds), () => `seconds: ${seconds}`);
  },
];

export const proc: Target = {
  name: 'proc',
  declared: [SyntaxError],
  seeds: TEXTS.map((text, at) => Buffer.concat([Buffer.from([at]), text])),
  mutate(random) {
    const at = random.below(READERS.length);
    const text = TEXTS[at];
    return Buffer.concat([
      Buffer.from([at]),
      mutateText(random, text === undefined || random.once(20) ? TEXTS : [text]),
    ]);
  },
  async run(input) {
    await READERS[(input[0] ?? 0) % READERS.length]?.(input.subarray(1).toString());
  },
  close() {
    rmSync(folder, { recursive: true, force: true });
    return Promise.resolve();
  },
};
