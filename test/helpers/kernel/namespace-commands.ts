/** The seams to commands and kernel settings, inside a network namespace of the lab. */

import type { Lab } from '../../../src/cli/lab/lab.ts';
import type { CommandRunner } from '../../../src/kernel/commands.ts';
import type { Sysctls } from '../../../src/kernel/sysctls.ts';
import { shellCommands } from './shell-commands.ts';

export function commandsIn(lab: Lab, name: string): CommandRunner {
  return {
    run: (command, signal) =>
      shellCommands.run({ ...command, ...lab.inside(name, command.file, command.args) }, signal),
  };
}

export function sysctlsIn(lab: Lab, name: string): Sysctls {
  const dotted = (setting: string) => setting.replaceAll('/', '.');
  return {
    read: async (setting) => (await lab.exec(name, 'sysctl', '-n', dotted(setting))).trim(),
    async write(setting, value) {
      await lab.exec(name, 'sysctl', '-qw', `${dotted(setting)}=${value}`);
    },
  };
}
