/**
 * The tests that need a kernel with IPVS, or another than this one (`*.vm.ts`): here when this kernel has IPVS, otherwise in
 * virtual machines (machine/README.md), two at a time.
 */
import { readdirSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { AGENTS } from './agent-files.ts';
import { repeatResults } from './repeat-results.ts';
import { isIpvsHere } from './run-there.ts';

const HERE = fileURLToPath(new URL('.', import.meta.url));
/** `npm run test:stories` has the one that is left out, and agents.test.ts those about the agent itself. */
const FILES = readdirSync(HERE).filter(
  (file) => file.endsWith('.vm.ts') && file !== 'every-story.vm.ts' && !AGENTS.includes(file),
);
const isFirst = (file: string) => /^(killed|localhost-relay|sctp|stories)/.test(file);

/** Of about the same length. */
const PARTS = {
  'stories, SCTP, agents that are killed, and the relay': FILES.filter(isFirst),
  'all other tests': FILES.filter((file) => !isFirst(file)),
};

describe('on a kernel with IPVS', { concurrency: (await isIpvsHere()) ? 1 : Object.keys(PARTS).length }, () => {
  for (const [part, files] of Object.entries(PARTS)) it(part, (t) => repeatResults(t, files));
});
