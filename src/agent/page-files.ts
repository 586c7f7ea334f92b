/** Reads the files of the live pages: from the executable, or from dist/page where agent or fleet runs from its sources. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { getRawAsset, isSea } from 'node:sea';
import { fileURLToPath } from 'node:url';
import { causeOf } from '../base/cause.ts';
import { realClock } from '../base/clock.ts';
import { realCommands } from '../kernel/commands.ts';
import { SOURCE_OPTIONS } from '../kernel/process.ts';

const BUILT = fileURLToPath(new URL('../../dist/page', import.meta.url));
const BUILDER = fileURLToPath(new URL('../../scripts/page.ts', import.meta.url));
/** Far more than the second that a build takes. */
const BUILD_TIMEOUT_MS = 60_000;

/** A failed build is not tried again for this time, because the page asks again and again, and each build is a process. */
const FAILURE_KEPT_MS = 60_000;

/** The build of each folder that is under way or failed lately. */
const building = new Map<string, Promise<void>>();
const failedAt = new Map<string, number>();

/**
 * Reads a file as gzip wrote it. The executable's files are read where they are mapped, and not kept. A checkout builds a missing page at the
 * first request; after a failure it waits a minute. Rejects with an error that names the remedy. `folder` has the built page of a checkout,
 * and `now` is a monotonic clock.
 */
export async function readPageFile(
  name: string,
  folder = BUILT,
  now: () => number = () => realClock.now(),
): Promise<Uint8Array> {
  if (isSea()) return new Uint8Array(getRawAsset(name));
  const file = join(folder, `${name}.gz`);
  try {
    return await readFile(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw notBuilt(causeOf(error));
  }
  await built(folder, now);
  return await readFile(file);
}

/** All requests share one build, and its failure for a while. */
async function built(folder: string, now: () => number): Promise<void> {
  const failed = failedAt.get(folder);
  if (failed !== undefined && now() - failed >= FAILURE_KEPT_MS) {
    failedAt.delete(folder);
    building.delete(folder);
  }
  let build = building.get(folder);
  if (build === undefined) {
    build = buildPage(folder).then(
      () => void building.delete(folder),
      (error) => {
        failedAt.set(folder, now());
        throw error;
      },
    );
    building.set(folder, build);
  }
  await build;
}

/** Rejects with an error that names the remedy. */
async function buildPage(folder: string): Promise<void> {
  const args = [...SOURCE_OPTIONS, BUILDER, folder];
  const command = { file: process.execPath, args };
  const { exitCode, stderr } = await realCommands.run(command, AbortSignal.timeout(BUILD_TIMEOUT_MS)).catch((error) => {
    throw notBuilt(causeOf(error));
  });
  if (exitCode !== 0) throw notBuilt(stderr.trim());
}

function notBuilt(why: string): Error {
  return new Error(
    `the page is not built: run "node scripts/page.ts" in the folder of the sources, and load it again (${why})`,
  );
}
