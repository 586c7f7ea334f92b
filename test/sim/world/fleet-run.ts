/** The real fleet in a simulated process: what `slicewire fleet` does after its flags are read. */
import { fleetConfig } from '../../../src/config/fleet-config.ts';
import type { AskForStream } from '../../../src/fleet/agent-stream.ts';
import { runFleet } from '../../../src/fleet/fleet-process.ts';
import { AGENTS_SERVICE } from '../history/fleet-objects.ts';
import { type AgentInput, type AgentRun, logLines, startProgram } from './agent-run.ts';
import { API_SERVER } from './config-text.ts';

export const FLEET_PORT = 10_262;

/** `ask`: asks the agent at an address. */
export function startFleet(
  { process, platform, onLine, onEnd }: Omit<AgentInput, 'flags'>,
  ask: AskForStream,
): AgentRun {
  const program = startProgram({ process, onEnd }, (signal) => {
    const config = fleetConfig({
      master: API_SERVER,
      agentsService: `default/${AGENTS_SERVICE}`,
      bindAddress: `127.0.0.1:${FLEET_PORT}`,
      authentication: 'false',
    });
    const component = {
      version: '0.0.0',
      startedAt: Date.now(),
      wall: () => Date.now(),
      random: () => 0.5,
      flags: new Map<string, string>(),
    };
    return runFleet(config, logLines(onLine), signal, {
      ...{ component, ask, connect: platform.connect, open: platform.process.listen },
      readPage: () => Promise.reject(new Error('nobody asks for the page')),
      readToken: async () => undefined,
    });
  });
  return { ...program, hangUp: () => undefined };
}
