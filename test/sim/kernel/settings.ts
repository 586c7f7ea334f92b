/** Kernel settings of a simulated machine: some are read-only, as in a container, and any program may change one. */
import type { SettingFiles } from '../../../src/kernel/sysctls.ts';
import type { SimProcess } from '../engine/process.ts';
import { fileFailure } from './failures.ts';

/** As on a machine of four cores that only started. */
const AT_START: Readonly<Record<string, string>> = {
  'net/netfilter/nf_conntrack_max': '65536',
  '/sys/module/nf_conntrack/parameters/hashsize': '65536',
  'net/netfilter/nf_conntrack_count': '0',
  'net/netfilter/nf_conntrack_tcp_timeout_established': '432000',
  'net/netfilter/nf_conntrack_tcp_timeout_close_wait': '60',
  'net/netfilter/nf_conntrack_tcp_be_liberal': '0',
  'net/netfilter/nf_conntrack_udp_timeout': '30',
  'net/netfilter/nf_conntrack_udp_timeout_stream': '120',
  'net/ipv4/conf/all/route_localnet': '0',
  'net/ipv4/conf/all/arp_ignore': '0',
  'net/ipv4/conf/all/arp_announce': '0',
  'net/ipv4/ip_forward': '1',
  'net/ipv4/vs/conntrack': '0',
  'net/ipv4/vs/expire_nodest_conn': '0',
  'net/ipv4/vs/expire_quiescent_template': '0',
  'net/ipv4/vs/conn_reuse_mode': '1',
};

export class SimSettings {
  readonly values = new Map(Object.entries(AT_START));
  /** Settings of the whole machine, seen from another network namespace. */
  readonly readOnly = new Set<string>();

  files(process: SimProcess): SettingFiles {
    const call = <T>(name: string, kind: 'read' | 'write' | 'open' | 'stat', effect: () => T) =>
      process.call<T>({
        what: `${kind} ${name}`,
        effect,
        mayOutlive: kind === 'read' || kind === 'stat',
        fail: (variant) => {
          throw fileFailure(pathOf(name), kind, variant);
        },
      });
    return {
      read: (name) => call(name, 'read', () => this.values.get(name)),
      write: (name, value) => call(name, 'write', () => this.#write(name, value)),
      whyNotWritable: (name) => call(name, 'open', () => this.#whyNotWritable(name)),
      isReadOnly: (name) => call(name, 'stat', () => this.readOnly.has(name)),
    };
  }

  #write(name: string, value: string): void {
    const problem = this.readOnly.has(name) ? 'EACCES' : this.values.has(name) ? undefined : 'ENOENT';
    if (problem !== undefined) throw Object.assign(new Error(`${problem}: open '${pathOf(name)}'`), { code: problem });
    this.values.set(name, value);
  }

  #whyNotWritable(name: string): string | undefined {
    if (!this.values.has(name)) return 'this kernel has no such setting';
    return this.readOnly.has(name) ? 'it is read-only in this network namespace' : undefined;
  }
}

function pathOf(name: string): string {
  return name.startsWith('/') ? name : `/proc/sys/${name}`;
}
