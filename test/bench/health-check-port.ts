/**
 * Requests of a load balancer that follows a health check node port (docs/semantics.md 9.5): an endpoint comes to a node among 10,000 Services,
 * and the balancer sends to the node from the moment on when the port answers 200. `node test/bench/health-check-port.ts EXECUTABLE [ROUNDS]`
 * prints the requests and those that failed. Nothing is asserted.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { LAB, Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';

const [executable = 'dist/slicewire', rounds = '25'] = process.argv.slice(2);
const SERVICES = 10_000;
const POD_PORT = 8080;
const NODE_PORT = 30_080;
const HEALTH_PORT = 32_100;
/** Requests after each time that the port says 200, and milliseconds between two of them. */
const REQUESTS = 10;
const BETWEEN = 50;
/** Milliseconds for a sync of the removal; minSyncPeriod is a second. */
const REST = 1300;

const ports = [{ name: '', port: POD_PORT }];
const list = (items: readonly object[]) => JSON.stringify({ apiVersion: 'v1', kind: 'List', items });

/** The Service of the balancer, before the node's pod or before none. */
function balanced(hasEndpoint: boolean): string {
  const endpoints = hasEndpoint ? [{ addresses: [podAddress(1).v4], nodeName: 'node' }] : [];
  const spec = {
    ...{ type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: HEALTH_PORT },
    ...{ clusterIP: '10.96.0.10', ports: [{ port: 80, nodePort: NODE_PORT }] },
  };
  return list([
    service({ name: 'web', spec }),
    slice({ name: 'web-1', service: 'web', addressType: 'IPv4', ports, endpoints }),
  ]);
}

function others(): string {
  const endpoints = [1, 2, 3, 4, 5].map((n) => ({ addresses: [`10.244.3.${n}`], nodeName: 'other' }));
  return list(
    Array.from({ length: SERVICES }, (_, i) => [
      service({ name: `s${i}`, spec: { clusterIP: `10.97.${i >> 8}.${i & 255}`, ports: [{ port: 80 }] } }),
      slice({ name: `s${i}-1`, service: `s${i}`, addressType: 'IPv4', ports, endpoints }),
    ]).flat(),
  );
}

const folder = await mkdtemp(join(tmpdir(), 'health-check-port-'));
const lab = await Lab.create({
  ...{ commands: shellCommands, pods: 1, remotePods: 0 },
  signal: new AbortController().signal,
});
let agent: AgentProcess | undefined;
try {
  await lab.serve('pod-1', 'TCP', POD_PORT);
  await writeFile(join(folder, 'others.json'), others());
  const write = (hasEndpoint: boolean) => writeFile(join(folder, 'web.json'), balanced(hasEndpoint));
  await write(false);
  const flags = [
    '--mode=iptables',
    '--iptables-backend=legacy',
    '--hostname-override=node',
    '--conntrack-max-per-core=0',
  ];
  agent = new AgentProcess(lab, ['run', ...flags, '--manifests', folder], executable);
  await agent.synced();
  const says = async (status: string) => {
    const args = ['-s', '-o', '/dev/null', '-m', '2', '-w', '%{http_code}', `http://${LAB.node.v4}:${HEALTH_PORT}/`];
    while ((await lab.exec('client', 'curl', ...args)).trim() !== status) await pause(10);
  };
  let failed = 0;
  for (let round = 0; round < Number(rounds); round += 1) {
    await write(true);
    await says('200');
    for (let i = 0; i < REQUESTS; i += 1) {
      const answer = await lab.ask('client', { address: LAB.node.v4, port: NODE_PORT, timeout: 300 });
      if (answer.outcome !== 'reply') failed += 1;
      await pause(BETWEEN);
    }
    await write(false);
    await says('503');
    await pause(REST);
  }
  process.stdout.write(`${failed} of ${Number(rounds) * REQUESTS} requests failed\n`);
} finally {
  await agent?.stop();
  await lab.remove();
  await rm(folder, { recursive: true });
}
process.exit();
