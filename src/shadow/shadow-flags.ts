/** The flags of a shadow that differ from those of the agent. */
import { AUTO } from '../config/config.ts';
import type { Flags } from '../config/flags.ts';

/** The default of --metrics-bind-address: that of kube-proxy is taken. */
const SHADOW_ADDRESS = '127.0.0.1:10269';
/** Flags that no file of kube-proxy replaces: the rules say in which mode it runs, and its ports are taken. */
export function shadowFlags({ metricsBindAddress }: Flags): Flags {
  return { mode: AUTO, metricsBindAddress: metricsBindAddress ?? SHADOW_ADDRESS };
}
