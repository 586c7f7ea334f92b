/** What a process of the tests tells of itself. */
import type { ComponentInfo } from '../../../src/serve/zpages.ts';

/** Started at the given moment, which is one day, one minute and one second ago. */
export const OWN_FACTS: ComponentInfo = {
  version: '9.9.9',
  startedAt: Date.UTC(2026, 10, 2, 3, 4, 5, 678),
  wall: () => Date.UTC(2026, 10, 3, 3, 5, 6, 900),
  random: () => 0.5,
  flags: new Map([
    ['master', 'https://CLASSIFIED@192.0.2.1'],
    ['mode', 'nftables'],
  ]),
};
