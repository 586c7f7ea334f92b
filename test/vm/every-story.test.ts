/** Every story with real packets through IPVS: here when this kernel has IPVS, otherwise in a virtual machine. */
import { it } from 'node:test';
import { repeatResults } from './repeat-results.ts';

it('every story on a kernel with IPVS', (t) => repeatResults(t, ['every-story.vm.ts']));
