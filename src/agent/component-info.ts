/** What a process tells of itself at /statusz and /flagz. */

import { realClock } from '../base/clock.ts';
import type { FlagGroup } from '../config/flag-table.ts';
import { flagValues } from '../config/flag-values.ts';
import type { Flags } from '../config/flags.ts';
import { version } from '../config/program-version.ts';
import type { ComponentInfo } from '../serve/zpages.ts';

/** To be called when the process starts to serve. `flags`: the command line. */
export function componentInfo(flags: Flags, groups: readonly FlagGroup[]): ComponentInfo {
  return {
    version: version(),
    startedAt: realClock.wall(),
    wall: () => realClock.wall(),
    random: Math.random,
    flags: flagValues(flags, groups),
  };
}
