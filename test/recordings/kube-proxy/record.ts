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
  // The server's own Service has an address of this machine: it becomes another proxy's.
  await api.update('Service', 'default/kubernetes', ({ metadata }) => {
    metadata.labels = { ...metadata.labels, 'service.kubernetes.io/service-proxy-name': 'none' };
  });
  for (const object of OBJECTS) await api.create(object as ApiObject);
  for (const mode of ['iptables', 'nftables'] as const) await record(mode, file);
} finally {
  await api.stop();
}

async function record(mode: 'iptables' | 'nftables', program: string): Promise<void> {
  const lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
  try {
    const relay = await TcpRelay.from(lab.namespace('node'), api.port);
    try {
      const kubeconfig = await api.kubeconfig();
      const proxy = await KubeProxy.start({ lab, file: program, kubeconfig, mode, node: NODE }, { within: 60_000 });
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
