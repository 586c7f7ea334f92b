/**
 * Runs test files in one process, one after another, each as a suite with the name of its file: `node scripts/test-process.ts FILE…`. Most
 * files take less time than the start of a process that has all modules.
 */
import { describe } from 'node:test';

for (const file of process.argv.slice(2)) {
  describe(file, async () => {
    await import(file);
  });
}
