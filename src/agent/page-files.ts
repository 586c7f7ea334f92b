/** Where the files of the live page are: in the executable, or in dist/page where the agent runs from its sources. */
import { readFileSync } from 'node:fs';
import { getRawAsset, isSea } from 'node:sea';
import { fileURLToPath } from 'node:url';

/** A file as gzip wrote it. The executable's files are read where they are mapped, and nothing is kept. Throws with what to do. */
export function readPageFile(name: string): Uint8Array {
  if (isSea()) return new Uint8Array(getRawAsset(name));
  try {
    return readFileSync(fileURLToPath(new URL(`../../dist/page/${name}.gz`, import.meta.url)));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(
      `the page is not built: run "node scripts/page.ts" in the folder of the sources, and load it again (${why})`,
    );
  }
}
