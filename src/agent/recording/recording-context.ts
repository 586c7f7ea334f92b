/** What recordings of this agent say about it. */
import { release } from 'node:os';
import { realClock } from '../../base/clock.ts';
import type { Config } from '../../config/config.ts';
import { fileFromConfig } from '../../config/config-file.ts';
import { servesExternalIPs } from '../../config/feature-gates.ts';
import { version } from '../../config/program-version.ts';
import type { RecordingContext } from '../../inspect/history/recording-writer.ts';
import type { Agent } from '../agent.ts';

/** The functions return the agent and the configuration in use: a reload replaces them, and recordings begin anew then. */
export function recordingContext(agent: () => Agent, config: () => Config): RecordingContext {
  return {
    parts() {
      const now = config();
      return {
        version: version(),
        kernel: release(),
        nodeName: now.nodeName,
        servesExternalIPs: servesExternalIPs(now.featureGates),
        ...agent().onNode.recorded,
        config: fileFromConfig(now),
      };
    },
    isWaiting: () => agent().mode.isWaiting,
    wall: () => realClock.wall(),
  };
}
