/**
 * Records the rules that a real kube-proxy writes for `OBJECTS`, for the tests of questions about them:
 * `node test/recordings/kube-proxy/record.ts --kube-proxy PATH --kube-apiserver PATH --etcd PATH`, as root. The files are named after
 * kube-proxy's version.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { LAB, Lab } from '../../../src/cli/lab/lab.ts';
import { KubeProxy, kubeProxyVersion } from '../../bench/kube-proxy.ts';
import { until } from '../../helpers/base/until.ts';
import { TcpRelay } from '../../helpers/cli/lab/tcp-relay.ts';
import type { ApiObject } from '../../helpers/cluster/api/api-store.ts';
import { shellCommands } from '../../helpers/kernel/shell-commands.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import { RealApi } from '../../upstream/e2e/real-api.ts';
import { NODE, OBJECTS } from './objects.ts';

/** The first minor versions of 1.x with nftables mode, with it unless that is switched off, and with `primary` for --nodeport-addresses. */
const FIRST = { nftables: 29, nftablesByDefault: 31, primary: 31 };

const option = { type: 'string' } as const;
const { values } = parseArgs({ options: { 'kube-proxy': option, 'kube-apiserver': option, etcd: option } });
const { 'kube-proxy': file, 'kube-apiserver': kubeApiserver, etcd } = values;
if (file === undefined || kubeApiserver === undefined || etcd === undefined)
  throw new Error('--kube-proxy, --kube-apiserver and --etcd name the programs');

const version = (await kubeProxyVersion(file)).slice(1);
const minor = Number(version.split('.')[1]);
const folder = join(import.meta.dirname, version);
await mkdir(folder, { recursive: true });
const api = await RealApi.start({ kubeApiserver, etcd });
try {
  await until('the Service of the API server', async () => (await api.list('Service', 'default')).length > 0);
  // The server's own Service has an address of this machine: it becomes another proxy's.
  await api.update('Service', 'default/kubernetes', ({ metadata }) => {
    metadata.labels = { ...metadata.labels, 'service.kubernetes.io/service-proxy-name': 'none' };
  });
  for (const object of OBJECTS) await api.create(object as ApiObject);
  const modes = minor < FIRST.nftables ? (['iptables'] as const) : (['iptables', 'nftables'] as const);
  for (const mode of modes) await record(mode, file);
} finally {
  await api.stop();
}

/** The Service that is made last has IPv4 and IPv6, and a sync writes all Services of a family. */
async function isWritten(lab: Lab, mode: 'iptables' | 'nftables'): Promise<boolean> {
  const commands = mode === 'nftables' ? [['nft', 'list', 'ruleset']] : [['iptables-nft-save'], ['ip6tables-nft-save']];
  const texts = await Promise.all(commands.map((words) => lab.exec('node', ...(words as [string, ...string[]]))));
  const text = texts.join('\n');
  return text.includes('10.96.0.32') && text.includes('fd00:96::32') && text.includes('fd00:244:1::11');
}

async function record(mode: 'iptables' | 'nftables', program: string): Promise<void> {
  const lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
  try {
    const relay = await TcpRelay.from(lab.namespace('node'), api.port);
    try {
      const kubeconfig = await api.kubeconfig();
      const synced = () => until('the last Service in both families', () => isWritten(lab, mode));
      const fields = {
        // The same addresses by their ranges.
        ...(minor < FIRST.primary ? { nodePortAddresses: [`${LAB.node.v4}/32`, `${LAB.node.v6}/128`] } : {}),
        ...(minor < FIRST.nftablesByDefault && mode === 'nftables'
          ? { featureGates: { NFTablesProxyMode: true } }
          : {}),
      };
      const options = { lab, file: program, kubeconfig, mode, node: NODE, fields };
      const proxy = await KubeProxy.start(options, { within: 60_000, synced });
      await proxy.stop();
      if (mode === 'nftables') {
        await writeFile(join(folder, 'nftables.nft'), await lab.exec('node', 'nft', 'list', 'ruleset'));
        return;
      }
      for (const [name, tool] of [
        ['ipv4', 'iptables-nft-save'],
        ['ipv6', 'ip6tables-nft-save'],
      ] as const) {
        const saved = await lab.exec('node', tool);
        // The dates of the tool's comments are no part of the rules.
        await writeFile(join(folder, `iptables-${name}.rules`), saved.replaceAll(/^#.*\n/gm, ''));
      }
    } finally {
      await relay.stop();
    }
  } finally {
    await lab.remove();
  }
}
