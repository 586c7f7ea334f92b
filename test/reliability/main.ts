/** Writes docs/reliability.md again, after its words changed. */
import { writePage } from './results.ts';

writePage();
