/**
 * Records the objects that a real kube-proxy in IPVS mode writes for `OBJECTS`, where the kernel has IPVS:
 * `SLICEWIRE_VM_OUT=FOLDER sh test/vm/machine/machine.sh run node test/recordings/kube-proxy/record-ipvs.ts KUBE_PROXY` fills the folder. The
 * API server is that of the tests, because no other runs in the machine.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Lab } from '../../../src/cli/lab/lab.ts';
import { KubeProxy } from '../../bench/kube-proxy.ts';
import { until } from '../../helpers/base/until.ts';
import { TcpRelay } from '../../helpers/cli/lab/tcp-relay.ts';
import { ApiServer } from '../../helpers/cluster/api/api-server.ts';
import { shellCommands } from '../../helpers/kernel/shell-commands.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import { PATIENCE, withDefaults } from '../../vm/rival-node.ts';
import { NODE, OBJECTS } from './objects.ts';

const [file] = process.argv.slice(2);
const { SLICEWIRE_VM_OUT: folder } = process.env;
if (file === undefined || folder === undefined) throw new Error('a kube-proxy and a folder are named');
await mkdir(folder, { recursive: true });

const lab = await Lab.create({ commands: shellCommands, pods: 1, remotePods: 0, signal: NEVER });
const api = await ApiServer.start();
try {
  for (const object of OBJECTS) api.put(withDefaults(object));
  const relay = await TcpRelay.from(lab.namespace('node'), Number(new URL(api.url).port));
  const options = { lab, file, kubeconfig: await api.kubeconfig(), mode: 'ipvs', node: NODE } as const;
  const proxy = await KubeProxy.start(options, { within: PATIENCE });
  const servers = () => lab.exec('node', 'ipvsadm', '-Sn');
  const isWritten = async () => /fd00:96::32.*fd00:244:1::11/.test((await servers()).replaceAll('\n', ' '));
  await until('the last Service in both families', isWritten, PATIENCE);
  await proxy.stop();
  await relay.stop();
  const addresses = await lab.exec('node', 'ip', '-o', 'addr', 'show', 'dev', 'kube-ipvs0');
  const held = [...addresses.matchAll(/ inet6? (\S+) /g)]
    .map(([, address = '']) => address)
    .filter((one) => !one.startsWith('fe80'));
  const parts = {
    'addresses.batch': held.map((address) => `addr add ${address} dev kube-ipvs0\n`).join(''),
    'sets.save': await lab.exec('node', 'ipset', 'save'),
    'servers.save': await servers(),
    'iptables-ipv4.rules': (await lab.exec('node', 'iptables-save')).replaceAll(/^#.*\n/gm, ''),
    'iptables-ipv6.rules': (await lab.exec('node', 'ip6tables-save')).replaceAll(/^#.*\n/gm, ''),
  };
  for (const [name, text] of Object.entries(parts)) await writeFile(join(folder, name), text);
} finally {
  await api.stop();
  await lab.remove();
}
