/** Where the files of the live pages are: in the executable, or in dist/page where agent or fleet runs from its sources. */
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
/** It takes a second. */
const BUILD_TIMEOUT_MS = 60_000;

/** Milliseconds in which a build that failed is not tried again: the page asks again and again, and each build is a process. */
const FAILURE_KEPT_MS = 60_000;

/** The build that is under way, or failed a short while ago, of each folder. */
const building = new Map<string, Promise<void>>();
const failedAt = new Map<string, number>();

/**
 * A file as gzip wrote it. The executable's files are read where they are mapped, and nothing is kept. A checkout builds the page when
 * somebody asks for it and it is missing; after a failure it waits a minute. Rejects with what to do. `folder` has the built page of a
 * checkout, and `now` is a clock that never goes backwards.
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

/** One build for all who ask, and one failure for all who ask soon after it. */
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

/** Rejects with what to do. */
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
