/** Words about a mode that nobody named: for the log, and for an event. */
import { AUTO, type Config } from '../config/config.ts';
import type { Log } from '../telemetry/log.ts';
import type { NodeEvents } from './node-events.ts';

/** kube-proxy 1.37 warns likewise, in the log and by an event (KEP-5343, k8s#139957). */
const NOT_SET =
  'the mode is not set, so the agent works in iptables mode. The default becomes nftables in Kubernetes 1.40 (KEP-5343). ' +
  'Set the mode (--mode, or the field mode of the file) to iptables to keep it then, or to nftables or auto to change it now';

/** Log how the mode came about where no flag or field names one. `former`: the configuration before, whose choice was logged. */
export function warnOfMode(
  { mode, modeChoice }: Config,
  former: Config | undefined,
  log: Pick<Log, 'info' | 'warn'>,
): void {
  if (modeChoice.by === former?.modeChoice.by) return;
  if (modeChoice.by === 'default') log.warn({ mode }, NOT_SET);
  if (modeChoice.by === AUTO) log.info({ mode }, `auto chose ${mode} mode, because ${modeChoice.why}`);
}

/** Emit an event on the Node where the mode is not set, unless it was not set before either. Its action is that of kube-proxy's start. */
export function emitModeWarning(
  { modeChoice }: Config,
  former: Config | undefined,
  events: Pick<NodeEvents, 'emitNode'>,
): void {
  if (modeChoice.by !== 'default' || former?.modeChoice.by === 'default') return;
  events.emitNode({ type: 'Warning', reason: 'ModeNotSet', action: 'StartKubeProxy', note: NOT_SET });
}
