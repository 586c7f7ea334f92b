/**
 * Writes docs/reliability.md again, after its words changed. With arguments, `node test/reliability/main.ts PART FILE`, it records
 * what a runner printed as JSON earlier, or on another machine: `npm run soak -- --json` does.
 */
import { readFileSync } from 'node:fs';
import { PARTS, recordPart, writePage } from './results.ts';

const [name, file] = process.argv.slice(2);
if (name === undefined) writePage();
else {
  const part = PARTS.find((one) => one === name);
  if (part === undefined || file === undefined)
    throw new Error(`a part and a file are needed; parts: ${PARTS.join(', ')}`);
  recordPart(part, JSON.parse(readFileSync(file, 'utf8')));
}
