/** iptables mode in the node of a lab, for stories with real packets. */
import type { Lab } from '../../src/lab/lab.ts';
import type { Family } from '../../src/model/address.ts';
import { IPTABLES } from '../conformance/iptables.ts';
import { commandsIn, sysctlsIn } from '../helpers/namespace-commands.ts';
import { Rig } from '../helpers/rig.ts';
import { viewOfSaved } from '../helpers/views.ts';
import type { Patience, TestedMode } from './story-packets.ts';

/** It finds in the kernel what the story before left, and replaces it. */
export function iptablesUnderTest(lab: Lab, backend: 'nft' | 'legacy', patience: Patience): TestedMode {
  const tool = (family: Family) => `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backend}`;
  return {
    open: ({ settings, servesExternalIPs }, family) =>
      new Rig({
        commands: commandsIn(lab, 'node'),
        sysctls: sysctlsIn(lab, 'node'),
        backend,
        settings: (of) => (of === family ? { ...settings } : {}),
        servesExternalIPs,
      }),
    tool,
    patience,
    unserved: IPTABLES.unserved,
    view: async (_, family) => viewOfSaved(await lab.exec('node', `${tool(family)}-save`), family),
    drains: false,
  };
}
