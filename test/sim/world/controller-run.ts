/** The real controller in a simulated process: what `slicewire controller` does after its flags are read. */
import { runController } from '../../../src/cli/controller.ts';
import { controllerConfig } from '../../../src/config/controller-config.ts';
import { type AgentInput, type AgentRun, logLines, startProgram } from './agent-run.ts';
import { API_SERVER } from './config-text.ts';

/** Starts one replica. It has a port of its own. */
export function startController(
  { process, platform, onLine, onEnd }: Omit<AgentInput, 'flags'>,
  replica: number,
): AgentRun {
  const program = startProgram({ process, onEnd }, (signal) => {
    const config = controllerConfig({ master: API_SERVER, bindAddress: `127.0.0.1:${20_000 + replica}` });
    const leader = config.leader && { ...config.leader, identity: `replica ${replica} ${process.name}` };
    const { connect } = platform;
    return runController({ ...config, leader }, logLines(onLine), signal, { connect, open: platform.process.listen });
  });
  return { ...program, hangUp: () => undefined };
}
