/** The agent itself on a kernel with IPVS: here when this kernel has IPVS, otherwise in a virtual machine. */
import { it } from 'node:test';
import { AGENTS } from './agent-files.ts';
import { repeatResults } from './repeat-results.ts';

it('the agent on a kernel with IPVS', (t) => repeatResults(t, AGENTS));
