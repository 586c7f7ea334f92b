/** Stories that run inside the namespace of a node: an API server on its loopback, the agent beside it. */

import assert from 'node:assert/strict';
import type { LogLine } from '../../src/cli/lab/agent-process.ts';
import { type Child, startChild } from '../../src/kernel/commands.ts';
import { slicewire } from '../helpers/cli/slicewire.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { service, slice } from '../helpers/cluster/objects.ts';

/** Milliseconds that the kernel has to follow. */
export const LONGEST = 60_000;

/** What the agents said. */
export const log: LogLine[] = [];

/** An agent with these flags. */
export function startAgent(...flags: readonly string[]): Child {
  const onErrorLine = (line: string) => log.push(JSON.parse(line) as LogLine);
  // With a line for each sync.
  return startChild({ ...slicewire('run', '--hostname-override', 'node', '-v', '2', ...flags), onErrorLine });
}

export const web = (n: number) =>
  service({
    name: `web-${n}`,
    spec: { clusterIP: `10.96.0.${n}`, clusterIPs: [`10.96.0.${n}`], ports: [{ port: 80 }] },
  });
export const webSlice = (n: number, ...endpoints: string[]) =>
  slice({ name: `web-${n}-a`, service: `web-${n}`, addressType: 'IPv4', endpoints });

/** Returns the agent that is to be stopped. */
export type Story = (server: ApiServer, kubeconfig: string) => Promise<Child>;

/** Run the one that the command line names, and end. */
export async function runStory(stories: Readonly<Record<string, Story>>): Promise<never> {
  const story = stories[process.argv[2] ?? ''] ?? assert.fail('no such story');
  const server = await ApiServer.start();
  let agent: Child | undefined;
  try {
    agent = await story(server, await server.kubeconfig());
  } finally {
    await agent?.stop();
    await server.stop();
  }
  process.exit(0);
}
