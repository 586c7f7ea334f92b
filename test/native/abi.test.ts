/** Constants and layouts against the C headers of this machine, through native/abi-probe.c. */
import { describeHeaders } from './headers.ts';

describeHeaders('native, against the C headers', 'gcc', () => []);
