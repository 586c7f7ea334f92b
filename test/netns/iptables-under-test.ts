/** iptables mode in the node of a lab, for stories with real packets. */
import type { Lab } from '../../src/cli/lab/lab.ts';
import { IPTABLES } from '../conformance/iptables.ts';
import { commandsIn, sysctlsIn } from '../helpers/kernel/namespace-commands.ts';
import { Rig } from '../helpers/proxy/rig.ts';
import type { Patience, TestedMode } from './story-packets.ts';

/** It finds in the kernel what the story before left, and replaces it. */
export function iptablesUnderTest(lab: Lab, backend: 'nft' | 'legacy', patience: Patience): TestedMode {
  return {
    open: ({ settings, servesExternalIPs }, family) =>
      new Rig({
        commands: commandsIn(lab, 'node'),
        sysctls: sysctlsIn(lab, 'node'),
        backend,
        settings: (of) => (of === family ? { ...settings } : {}),
        servesExternalIPs,
      }),
    tool: (family) => `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backend}`,
    patience,
    unserved: IPTABLES.unserved,
    drains: false,
  };
}
