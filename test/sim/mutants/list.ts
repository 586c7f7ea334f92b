/** Faults that are put into the agent's code on purpose, one at a time: the simulator must find each. */

export interface Mutant {
  readonly name: string;
  /** For docs/reliability.md. */
  readonly what: string;
  readonly file: string;
  /** The code to replace; it must occur exactly once. */
  readonly from: string;
  readonly to: string;
}

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'no-retry',
    what: 'A failed sync is not retried',
    file: 'src/proxy/sync/scheduler.ts',
    from: '(isWell ? max : Math.min(retry, max))',
    to: '(isWell ? max : 86_400_000)',
  },
  {
    name: 'believe-failed-restore',
    what: 'A failed iptables-restore counts as done',
    file: 'src/proxy/modes/netfilter/apply.ts',
    from: '      trackers.chains.forget();\n      trackers.jumps.forget();\n',
    to: '      continue;\n',
  },
  {
    name: 'believe-lost-answer',
    what: 'A transaction of nftables whose answer was lost counts as done',
    file: 'src/proxy/modes/nft-table/table.ts',
    from: '      isLost = true;\n      failed.push(',
    to: '      target.wrote(transaction);\n      if (transaction.steps.length < 0) failed.push(',
  },
  {
    name: 'forget-deletions',
    what: 'A new list does not remove the objects that it lacks',
    file: 'src/cluster/api/intake.ts',
    from: 'for (const key of this.#known.listEnds()) this.#sink.gone(key, version, false);',
    to: 'this.#known.listEnds();',
  },
  {
    name: 'go-on-after-restore',
    what: 'A resourceVersion that went back is ignored',
    file: 'src/cluster/api/intake.ts',
    from: 'if (!isOlder(version, this.#version)) return false;',
    to: 'if (isOlder(version, this.#version) || true) return false;',
  },
  {
    name: 'ignore-deleted',
    what: 'A watch ignores deletions',
    file: 'src/cluster/api/intake.ts',
    from: "    this.#mustGoOn(version);\n    if (type === 'DELETED') this.#gone(key, version, true);",
    to: "    this.#mustGoOn(version);\n    if (type === 'DELETED') this.#known.delete(key);",
  },
  {
    name: 'remove-predecessor-first',
    what: 'The former mode is removed although the new one could not be written',
    file: 'src/proxy/modes/handover.ts',
    from: "if (report.outcome !== 'complete' || !mayRemove || this.#isPredecessorGone) return report;",
    to: 'if (this.#isPredecessorGone) return report;',
  },
  {
    name: 'lose-touched',
    what: 'Services that a failed sync took are forgotten',
    file: 'src/proxy/sync/loop.ts',
    from: 'for (const key of cache.takeChanges()) this.#unrendered.add(key);\n    return [...this.#unrendered];',
    to: 'this.#unrendered.clear();\n    for (const key of cache.takeChanges()) this.#unrendered.add(key);\n    return [...this.#unrendered];',
  },
  {
    name: 'unknown-is-empty',
    what: 'A kernel that cannot be read counts as one without rules',
    file: 'src/proxy/modes/nft-table/table.ts',
    from: 'return this.state.observe(found);\n    } catch (error) {\n      this.remembered.forget();\n      throw error;',
    to: 'return this.state.observe(found);\n    } catch {\n      return this.state.observe(undefined);',
  },
  {
    name: 'believe-after-flush',
    what: 'What another program changed is not read again',
    file: 'src/agent/kernel-watch.ts',
    from: '    this.#agent.loop.distrust();\n',
    to: '',
  },
  {
    name: 'drop-moved-endpoint',
    what: 'A slice replaces all slices of its Service',
    file: 'src/cluster/cache/cache.ts',
    from: 'this.#put(service, at < 0 ? [...ofService, packed] : ofService.with(at, packed));',
    to: 'this.#put(service, [packed]);',
  },
  {
    name: 'leak-socket',
    what: 'A generation of the agent that ended leaves its sockets open',
    file: 'src/agent/reload.ts',
    from: '    former.agent.onNode.close();\n',
    to: '',
  },
  {
    name: 'never-wait',
    what: 'A failed request is repeated without a pause',
    file: 'src/cluster/api/reflector.ts',
    from: 'export function backoff(',
    to: 'export function backoff(...all: unknown[]): number {\n  return all.length * 0;\n}\n\nfunction unused(',
  },
  {
    name: 'record-without-digest',
    what: 'What the last agent left is believed to be what is desired now',
    file: 'src/proxy/modes/nft-table/remembered.ts',
    from: 'digest.value !== left.digest || ',
    to: '',
  },
];
