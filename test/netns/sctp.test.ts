/** SCTP in iptables mode, both variants. */
import { describe } from 'node:test';
import { commandsIn, sysctlsIn } from '../helpers/kernel/namespace-commands.ts';
import { Rig } from '../helpers/proxy/rig.ts';
import { testSctp } from './sctp-stories.ts';

for (const backend of ['nft', 'legacy'] as const) {
  describe(`SCTP, iptables-${backend}`, () => {
    testSctp((lab) => new Rig({ commands: commandsIn(lab, 'node'), sysctls: sysctlsIn(lab, 'node'), backend }));
  });
}
