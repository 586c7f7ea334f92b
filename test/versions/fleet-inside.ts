/** An agent and a fleet, each of a version that is given, beside an API server on the loopback of a node: what is written, and what is drained. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { type Child, startChild } from '../../src/kernel/commands.ts';
import { agentsSlice } from '../fleet/rig.ts';
import type { Program } from '../helpers/cli/slicewire.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { service, slice } from '../helpers/cluster/objects.ts';

const FLEET_PORT = 39_262;
const AGENT_PORT = 10_256;
/** Milliseconds: the machine may be emulated. */
const PATIENCE = 240_000;

const programs = JSON.parse(process.argv[2] ?? '{}') as { readonly agent: Program; readonly fleet: Program };
const said: string[] = [];

function start([file, ...before]: Program, ...args: readonly string[]): Child {
  return startChild({ file, args: [...before, ...args], onErrorLine: (line) => said.push(line) });
}

/** The fleet's answer is as it should be, in the end. */
async function answers(path: string, isRight: (answer: Record<string, unknown>) => boolean): Promise<void> {
  const end = performance.now() + PATIENCE;
  let last = '';
  while (performance.now() < end) {
    try {
      const answer = await fetch(`http://127.0.0.1:${FLEET_PORT}${path}`, { headers: { connection: 'close' } });
      const text = await answer.text();
      if (answer.status === 200 && isRight(JSON.parse(text) as Record<string, unknown>)) return;
      last = `${answer.status} ${text}`;
    } catch (error) {
      last = String(error);
    }
    await pause(200);
  }
  assert.fail(`${path}: ${last}\n${said.join('\n')}`);
}

const endpoints = (...addresses: readonly string[]) =>
  slice({
    ...{ name: 'web-a', service: 'web', addressType: 'IPv4' as const },
    endpoints: addresses.map((address) => ({ addresses: [address], nodeName: 'node' })),
  });

const api = await ApiServer.start();
const kubeconfig = await api.kubeconfig();
api.put({
  ...{ apiVersion: 'v1', kind: 'Node', metadata: { name: 'node' } },
  spec: { podCIDRs: ['10.244.0.0/24'] },
  status: {
    addresses: [{ type: 'InternalIP', address: '127.0.0.1' }],
    conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: '2026-11-01T00:00:00Z' }],
  },
});
api.put(service({ name: 'web', spec: { clusterIP: '10.96.0.10', clusterIPs: ['10.96.0.10'], ports: [{ port: 80 }] } }));
api.put(endpoints('10.244.0.1', '10.244.0.2'));
api.put(agentsSlice('node', AGENT_PORT));
const own = ['--kubeconfig', kubeconfig];
const agent = start(
  programs.agent,
  ...['run', '--mode=nftables', '--nftables-min-sync-period=0s', '--hostname-override', 'node'],
  ...['--conntrack-max-per-core', '0', '--programmed-authentication=false', ...own],
);
const bound = ['--bind-address', `127.0.0.1:${FLEET_PORT}`, '--authentication=false', '--token-file=/no/token'];
const fleet = start(programs.fleet, 'fleet', ...bound, ...own);
try {
  const isWritten = ({ programmed, behindCount }: Record<string, unknown>) => programmed === 1 && behindCount === 0;
  await answers('/programmed?service=default/web', isWritten);
  api.put(endpoints('10.244.0.1'));
  await answers('/drained?address=10.244.0.2&timeout=10s', ({ drained }) => drained === true);
  await answers('/programmed?service=default/web', isWritten);
} finally {
  await fleet.stop();
  await agent.stop();
  await api.stop();
}
process.exit(0);
