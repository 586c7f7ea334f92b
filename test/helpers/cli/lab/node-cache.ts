/**
 * NodeLocal DNSCache on a node of the lab, as its node-cache sets it up (KEP-1024, and cmd/node-cache of kubernetes/dns): a device that
 * stays down and has the addresses, a server at port 53 of them, and rules before all others that spare their packets the connection
 * tracking and a closed firewall.
 */
import { fileURLToPath } from 'node:url';
import type { Lab } from '../../../../src/cli/lab/lab.ts';
import { type Child, startChild } from '../../../../src/kernel/commands.ts';
import { shellCommands } from '../../kernel/shell-commands.ts';
import { NEVER } from '../../proxy/rig.ts';

const INSIDE = fileURLToPath(new URL('../../../netns/dns-cache-inside.ts', import.meta.url));
const PORT = '53';
const HEALTH_PORT = '8080';
const PROTOCOLS = ['udp', 'tcp'];
const COMMENT = '-m comment --comment "NodeLocal DNS Cache"';

export interface NodeCacheOptions {
  /** Of one family: node-cache knows no other case, and a node of two families runs two. */
  readonly addresses: readonly string[];
  /** Where it asks. */
  readonly upstream: string;
  /** Which iptables the image of node-cache chose. */
  readonly variant: 'nft' | 'legacy';
  /** Of the device; `nodelocaldns` by default. */
  readonly device?: string;
}

export class NodeCache {
  readonly #lab: Lab;
  readonly #options: NodeCacheOptions;
  readonly #device: string;
  #server: Child | undefined;

  constructor(lab: Lab, options: NodeCacheOptions) {
    this.#lab = lab;
    this.#options = options;
    this.#device = options.device ?? 'nodelocaldns';
  }

  /** Device, server, rules, in this order. */
  async start(): Promise<void> {
    await this.#addDevice();
    const { upstream, addresses } = this.#options;
    await new Promise<void>((resolve, reject) => {
      const command = this.#lab.inside('node', process.execPath, [INSIDE, upstream, ...addresses]);
      const errors: string[] = [];
      this.#server = startChild({ ...command, onLine: () => resolve(), onErrorLine: (line) => errors.push(line) });
      void this.#server.ended.then(() => reject(new Error(`the cache ended: ${errors.join('; ')}`)));
    });
    await this.#restore('-I');
  }

  /** The server alone, as after a crash: device and rules stay. */
  async crash(): Promise<void> {
    await this.#server?.stop();
    this.#server = undefined;
  }

  /** Rules first, then the device: as node-cache ends. */
  async stop(): Promise<void> {
    await this.#restore('-D');
    await this.#lab.exec('node', 'ip', 'link', 'delete', this.#device);
    await this.crash();
  }

  /** Its rules as the kernel has them, by table. */
  async rules(): Promise<string[]> {
    const saved = await this.#lab.exec('node', `${this.#tool}-save`);
    return saved.split('\n').filter((line) => line.includes('NodeLocal DNS Cache'));
  }

  get #tool(): string {
    const family = this.#options.upstream.includes(':') ? 'ip6tables' : 'iptables';
    return `${family}-${this.#options.variant}`;
  }

  /** A dummy device, or a bridge where the kernel has no dummies. DAD would keep an address of a bridge from use; a dummy has none. */
  async #addDevice(): Promise<void> {
    const add = (type: string) =>
      shellCommands.run(this.#lab.inside('node', 'ip', ['link', 'add', this.#device, 'type', type]), NEVER);
    if ((await add('dummy')).exitCode !== 0) await add('bridge');
    for (const address of this.#options.addresses) {
      const v6 = address.includes(':');
      const words = v6 ? [`${address}/128`, 'dev', this.#device, 'nodad'] : [`${address}/32`, 'dev', this.#device];
      await this.#lab.exec('node', 'ip', 'address', 'add', ...words);
    }
  }

  #rules(): string[][] {
    const to = (address: string, port: string) => ['-d', address, '--dport', port];
    const from = (address: string, port: string) => ['-s', address, '--sport', port];
    const { addresses } = this.#options;
    return addresses.flatMap((address) => [
      ...PROTOCOLS.flatMap((protocol) => [
        ['raw', 'PREROUTING', '-p', protocol, ...to(address, PORT), '-j', 'NOTRACK'],
        ['filter', 'INPUT', '-p', protocol, ...to(address, PORT), '-j', 'ACCEPT'],
        ['raw', 'OUTPUT', '-p', protocol, ...from(address, PORT), '-j', 'NOTRACK'],
        ['filter', 'OUTPUT', '-p', protocol, ...from(address, PORT), '-j', 'ACCEPT'],
        ['raw', 'OUTPUT', '-p', protocol, ...to(address, PORT), '-j', 'NOTRACK'],
      ]),
      ['raw', 'OUTPUT', '-p', 'tcp', ...to(address, HEALTH_PORT), '-j', 'NOTRACK'],
      ['raw', 'OUTPUT', '-p', 'tcp', ...from(address, HEALTH_PORT), '-j', 'NOTRACK'],
    ]);
  }

  /** All rules with one command, before those that are there, or away. */
  async #restore(how: '-I' | '-D'): Promise<void> {
    const lines = ['raw', 'filter'].flatMap((table) => {
      const own = this.#rules().filter(([of]) => of === table);
      return [`*${table}`, ...own.map(([, chain, ...rule]) => [how, chain, ...rule, COMMENT].join(' ')), 'COMMIT'];
    });
    const args = ['--noflush', '--wait', '5'];
    const command = { ...this.#lab.inside('node', `${this.#tool}-restore`, args), input: () => lines };
    const { exitCode, stderr } = await shellCommands.run(command, NEVER);
    if (exitCode !== 0) throw new Error(`${this.#tool}-restore: ${stderr}`);
  }
}
