/**
 * Records the rules that a real kube-proxy writes for `OBJECTS`, for the tests of questions about them:
 * `node test/recordings/kube-proxy/record.ts --kube-proxy PATH --kube-apiserver PATH --etcd PATH`, as root. The files are named after
 * kube-proxy's version.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Lab } from '../../../src/cli/lab/lab.ts';
import { KubeProxy, kubeProxyVersion } from '../../bench/kube-proxy.ts';
import { until } from '../../helpers/base/until.ts';
import { TcpRelay } from '../../helpers/cli/lab/tcp-relay.ts';
import type { ApiObject } from '../../helpers/cluster/api/api-store.ts';
import { shellCommands } from '../../helpers/kernel/shell-commands.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import { RealApi } from '../../upstream/e2e/real-api.ts';
import { NODE, OBJECTS } from './objects.ts';

const option = { type: 'string' } as const;
const { values } = parseArgs({ options: { 'kube-proxy': option, 'kube-apiserver': option, etcd: option } });
const { 'kube-proxy': file, 'kube-apiserver': kubeApiserver, etcd } = values;
if (file === undefined || kubeApiserver === undefined || etcd === undefined)
  throw new Error('--kube-proxy, --kube-apiserver and --etcd name the programs');

const folder = join(import.meta.dirname, (await kubeProxyVersion(file)).slice(1));
await mkdir(folder, { recursive: true });
const api = await RealApi.start({ kubeApiserver, etcd });
try {
  await until('the Service of the API server', async () => (await api.list('Service', 'default')).length > 0);
  // The server's own Service has an address of this machine: it becomes another proxy's.
  await api.update('Service', 'default/kubernetes', ({ metadata }) => {
    metadata.labels = { ...metadata.labels, 'service.kubernetes.io/service-proxy-name': 'none' };
  });
  for (const object of OBJECTS) await api.create(object as ApiObject);
  for (const mode of ['iptables', 'nftables'] as const) await record(mode, file);
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
      const options = { lab, file: program, kubeconfig, mode, node: NODE };
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
