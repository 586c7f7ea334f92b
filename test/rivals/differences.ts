/** Stories that a real kube-proxy ends otherwise, with the reason, beside those whose story says so itself (`Story.kubeProxy`). */
import type { ModeName } from '../../src/proxy/model/modes.ts';

/** By the id of the story; of kube-proxy 1.36. */
export const DIFFERENCES: Readonly<Record<ModeName, Readonly<Record<string, string>>>> = {
  iptables: {},
  nftables: {},
  ipvs: {},
};
