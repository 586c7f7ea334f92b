import { KubeProxy } from './kube-proxy.ts';
import { Trial } from './trial.ts';
import { realCommands } from '../../src/kernel/commands.ts';
const NEVER = new AbortController().signal;
for (const mode of ['iptables', 'nftables'] as const)
  await Trial.of({ shape: { services: 10_000, endpoints: 5 }, mode, isSource: true } as never, async (trial) => {
    const proxy = await KubeProxy.start({ lab: trial.lab, file: '/tmp/slicewire-peers/kube-proxy', kubeconfig: trial.server.kubeconfig, mode }, { within: 300_000 });
    for (const words of [['verify'], ['explain', '10.128.0.9', '10.96.0.10:80'], ['exposure']]) {
      const own = ['--of', 'kube-proxy', '--kubeconfig', trial.server.kubeconfig, '--hostname-override', 'node-0', '--cluster-cidr', '10.128.0.0/9', '--nodeport-addresses', 'primary'];
      const t = performance.now();
      const r = await realCommands.run({ ...trial.lab.inside('node', process.execPath, ['/tmp/w34/src/main.ts', ...words, ...own]) }, NEVER);
      console.log(mode, words[0], Math.round(performance.now() - t), 'ms', r.exitCode, (r.stdout || r.stderr).split('\n').slice(0, 14).join('\n'));
    }
    await proxy.stop();
  });
