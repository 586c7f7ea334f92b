/**
 * No answer of the kernel or a tool ends the agent, in any mode. Each call of a sync fails in turn, and the sync reports the
 * failure. When the faults end, the state is the same as without them.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { NetlinkError } from '../../../native/netlink.ts';
import { FAMILIES } from '../../../src/base/address.ts';
import { CommandNotStarted, type CommandResult } from '../../../src/kernel/commands.ts';
import { KernelError } from '../../../src/kernel/ipvs-kernel.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { ipvsRig } from '../../helpers/proxy/ipvs-rig.ts';
import { nftRig } from '../../helpers/proxy/nft-rig.ts';
import { NEVER, Rig } from '../../helpers/proxy/rig.ts';

/** EPERM, EINTR, ENOMEM, ENOBUFS */
const ERRNOS = [1, 4, 12, 105];
/** Numbers of consecutive faults: with two, a read may fail after a failed write. */
const IN_A_ROW = [1, 2, 3];

/** Counts calls, and makes some of them fail. */
class Faults {
  calls = 0;
  readonly #from: number;
  readonly #to: number;

  constructor(from: number, count: number) {
    this.#from = from;
    this.#to = from + count;
  }

  /** Whether this call fails. */
  next(): boolean {
    this.calls += 1;
    return this.calls >= this.#from && this.calls < this.#to;
  }
}

/** Most calls of a history that are made to fail. */
const MAX_PLACES = 60;

interface Subject {
  readonly rig: Rig;
  /** The whole state of the kernel. */
  dump(): unknown;
  /** Another program deletes all of it. */
  wipe(): void;
  arm(faults: Faults | undefined, errno: number): void;
}

function nftSubject(isAnswerLost: boolean): Subject {
  const { rig, kernel } = nftRig();
  const { onCommit, ...options } = kernel.options;
  return {
    rig,
    dump: () =>
      FAMILIES.map((of) => [of, kernel.tables.get(of) ?? assert.fail(`${of}: no table`)] as const).map(
        ([family, { chains, sets }]) => [
          family,
          [...chains.keys()].sort(),
          [...sets].map(([name, { elements }]) => [name, [...elements.keys()].sort()]).sort(),
        ],
      ),
    wipe: () => kernel.tables.clear(),
    arm(faults, errno) {
      const fail = () => {
        if (faults?.next() === true) throw new NetlinkError(errno, undefined);
      };
      kernel.options = {
        ...options,
        ...(onCommit && { onCommit }),
        ...(isAnswerLost ? { onAnswer: fail } : { onCall: fail }),
      };
    },
  };
}

/** The outcome of a command. */
const ENDS: Readonly<Record<number, () => CommandResult>> = {
  1: () => ({ exitCode: 4, stdout: '', stderr: 'iptables: Permission denied (you must be root)' }),
  4: () => ({ exitCode: undefined, stdout: '', stderr: '' }),
  12: () => ({ exitCode: 3, stdout: '', stderr: 'iptables: Memory allocation problem.' }),
  105: () => {
    throw new CommandNotStarted('iptables', 'spawn ENOMEM');
  },
};

function iptablesSubject(): Subject {
  const kernel = new FakeIptables();
  return {
    rig: new Rig({ commands: kernel }),
    dump: () => [kernel.save('IPv4'), kernel.save('IPv6')].map((text) => text.split('\n').sort()),
    wipe: () => {
      for (const tables of Object.values(kernel.kernels)) {
        for (const chains of tables.values()) {
          for (const [name, rules] of chains)
            if (name.startsWith('KUBE-')) chains.delete(name);
            else rules.length = 0;
        }
      }
    },
    arm(faults, errno) {
      kernel.options = { intercept: () => (faults?.next() === true ? ENDS[errno]?.() : undefined) };
    },
  };
}

function ipvsSubject(): Subject {
  const { rig, kernel, iptables } = ipvsRig({ node: { tcpTimeout: 800 } });
  const before = { kernel: kernel.options, iptables: iptables.options };
  return {
    rig,
    dump: () => [kernel.dump(), iptables.save('IPv4').split('\n').sort(), iptables.save('IPv6').split('\n').sort()],
    wipe: () => {
      kernel.virtual.clear();
      kernel.ours.clear();
      kernel.device = false;
    },
    arm(faults, errno) {
      const isDue = () => faults?.next() === true;
      kernel.options = {
        ...before.kernel,
        intercept: () => (isDue() ? new KernelError('environment', `errno ${errno}`) : undefined),
        onRead: () => {
          if (isDue()) throw new NetlinkError(errno, undefined);
        },
      };
      iptables.options = { ...before.iptables, intercept: () => (isDue() ? ENDS[errno]?.() : undefined) };
    },
  };
}

const web = (n: number, endpoints: number) => [
  service({
    name: `web-${n}`,
    spec: { type: 'NodePort', clusterIP: `10.96.0.${n}`, ports: [{ port: 80, nodePort: 30_080 + n }] },
  }),
  slice({
    name: `web-${n}-1`,
    service: `web-${n}`,
    addressType: 'IPv4',
    endpoints: Array.from({ length: endpoints }, (_, i) => ({
      addresses: [`10.244.${n}.${i + 1}`],
      nodeName: 'other',
    })),
  }),
];

/** A start, changes, another program that deletes everything, and deletions. */
const HISTORY: readonly ((subject: Subject) => void)[] = [
  ({ rig }) => rig.put(...web(1, 2), ...web(2, 1)),
  ({ rig }) => rig.put(...web(1, 3), ...web(3, 1)),
  ({ rig, wipe }) => {
    wipe();
    rig.put(...web(2, 2)).loop.distrust();
  },
  ({ rig, wipe }) => {
    // No probe saw it: the write finds it.
    wipe();
    rig.put(...web(3, 4));
  },
  ({ rig }) => rig.remove('Service', 'default/web-1'),
];

/** Syncs until one is complete without faults; none of them may reject. */
async function settle({ rig }: Subject): Promise<void> {
  for (let tries = 1; ; tries++) {
    const { outcome, failed } = await rig.sync();
    if (outcome === 'complete') break;
    assert.ok(tries < 4, JSON.stringify(failed));
  }
  rig.loop.distrust();
  assert.equal((await rig.sync()).outcome, 'complete');
}

/** Run the history with the armed faults; returns the number of calls. */
async function runHistory(subject: Subject, faults: Faults, errno: number): Promise<number> {
  subject.arm(faults, errno);
  for (const act of HISTORY) {
    act(subject);
    const report = await subject.rig.sync();
    if (report.outcome !== 'complete') assert.ok(report.failed.every(({ cause }) => cause !== ''));
    await subject.rig.mode.probe.isInstalled(NEVER).catch(() => undefined);
  }
  subject.arm(undefined, errno);
  return faults.calls;
}

const SUBJECTS: readonly (readonly [string, () => Subject])[] = [
  ['nftables', () => nftSubject(false)],
  ['nftables, when answers are lost', () => nftSubject(true)],
  ['iptables', iptablesSubject],
  ['IPVS', ipvsSubject],
];

describe('a kernel that fails at any call', () => {
  for (const [name, make] of SUBJECTS) {
    it(`${name}: no sync rejects, and the state is right when the faults end`, async () => {
      const right = make();
      const calls = await runHistory(right, new Faults(Number.POSITIVE_INFINITY, 1), 12);
      await settle(right);
      assert.ok(calls > 10, `${calls} calls`);
      // An even sample of many calls.
      const step = Math.ceil(calls / MAX_PLACES);
      for (let n = 1; n <= calls; n += step) {
        const errno = ERRNOS[n % ERRNOS.length] ?? 12;
        for (const count of IN_A_ROW) {
          const subject = make();
          await runHistory(subject, new Faults(n, count), errno);
          await settle(subject);
          assert.deepEqual(subject.dump(), right.dump(), `${count} faults from call ${n} on, errno ${errno}`);
        }
      }
    });
  }
});
