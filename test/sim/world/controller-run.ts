/** The real controller in a simulated process: what `slicewire controller` does after its flags are read. */
import { runController } from '../../../src/cli/controller.ts';
import { controllerConfig } from '../../../src/config/controller-config.ts';
import { type AgentInput, type AgentRun, logInto } from './agent-run.ts';
import { API_SERVER } from './config-text.ts';

/** Starts one replica. It has a port of its own. */
export function startController(
  { process, outside, onLine, onEnd }: Omit<AgentInput, 'flags'>,
  replica: number,
): AgentRun {
  return process.run(() => {
    const stopping = new AbortController();
    let end: { error: unknown } | undefined;
    const ended = (error: unknown) => {
      if (process.isDead || end !== undefined) return;
      end = { error };
      onEnd(error);
    };
    const config = controllerConfig({ master: API_SERVER, bindAddress: `127.0.0.1:${20_000 + replica}` });
    const leader = config.leader && { ...config.leader, identity: `replica ${replica} ${process.name}` };
    const { connect } = outside;
    runController({ ...config, leader }, logInto(onLine), stopping.signal, {
      connect,
      open: outside.process.listen,
    }).then(
      () => ended(undefined),
      (error: unknown) => ended(stopping.signal.aborted ? undefined : error),
    );
    return {
      process,
      end: () => end,
      stop: () => process.run(() => stopping.abort(new Error('SIGTERM'))),
      hangUp: () => undefined,
    };
  });
}
