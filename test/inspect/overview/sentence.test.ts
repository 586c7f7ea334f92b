/** The health of the agent in one sentence. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { healthSentence, type SentenceFacts } from '../../../src/inspect/overview/sentence.ts';

const WELL: SentenceFacts = {
  health: { live: true, ready: true, healthy: true, reasons: [] },
  services: 10_214,
  refused: [],
  setAside: 0,
  suspects: [],
  waiting: 0,
};
const ill = (reasons: string[], more: object = {}) => ({ ...WELL.health, healthy: false, reasons, ...more });

const ROWS: readonly (readonly [string, Partial<SentenceFacts>, string])[] = [
  ['all is well', {}, `All 10,214 Services are in the kernel`],
  ['a single Service', { services: 1 }, `The only Service is in the kernel`],
  ['no Service', { services: 0 }, 'There are no Services yet'],
  [
    'the kernel refuses some',
    { refused: ['a/b', 'a/c', 'a/d', 'a/e'] },
    `10,210 of 10,214 Services are in the kernel; the kernel refuses a/b, a/c, a/d and 1 more`,
  ],
  ['changes wait', { services: 2, waiting: 1 }, `1 of 2 Services is in the kernel; 1 Service waits for the next sync`],
  [
    'both',
    { services: 9, refused: ['a/b'], waiting: 2 },
    `6 of 9 Services are in the kernel; the kernel refuses a/b; 2 Services wait for the next sync`,
  ],
  [
    'objects are set aside',
    { services: 3, setAside: 2 },
    `All 3 Services are in the kernel; 2 objects are set aside because of their faults`,
  ],
  [
    'a Node does not answer',
    { services: 3, suspects: ['node-2'] },
    `All 3 Services are in the kernel; Node node-2 does not answer, and its endpoints get no new connections`,
  ],
  [
    'Nodes do not answer',
    { services: 3, suspects: ['a', 'b', 'c', 'd'] },
    `All 3 Services are in the kernel; Nodes a, b, c and 1 more do not answer, and their endpoints get no new connections`,
  ],
  [
    'nothing but an object that is set aside',
    { services: 0, setAside: 1 },
    'No Service is in the kernel; 1 object is set aside because of its faults',
  ],
  [
    'not healthy, for two reasons',
    { health: ill(['IPv4: changes have not reached the kernel for 70 s', 'the rules could not be verified']) },
    'Not healthy: IPv4: changes have not reached the kernel for 70 s (and 1 more reason)',
  ],
  ['not ready', { health: ill(['the first sync'], { ready: false }) }, 'Not ready: the first sync'],
  ['a hang', { health: ill(['a sync hangs'], { ready: false, live: false }) }, 'The agent hangs: a sync hangs'],
  ['no reason', { health: ill([]) }, 'Not healthy'],
];

describe('the sentence of health', () => {
  for (const [what, facts, sentence] of ROWS) {
    it(`says what is so when ${what}`, () => assert.equal(healthSentence({ ...WELL, ...facts }), sentence));
  }
});
