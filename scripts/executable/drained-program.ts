/** Makes `slicewire-drained` (native/drained/): the static program of preStop hooks, which needs a C compiler and the kernel's headers alone. */
import { globSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { realCommands } from '../../src/kernel/commands.ts';
import { RuntimeRefused } from '../runtime.ts';
import { OWN_PLATFORM, type TargetPlatform } from './platform.ts';

export const DRAINED_PROGRAM = 'slicewire-drained';
export const DRAINED_SOURCES = fileURLToPath(new URL('../../native/drained', import.meta.url));
const NEVER = new AbortController().signal;

/** Bytes. It is copied into each Pod, so its size counts once for each. */
export const MAX_DRAINED_BYTES = 200_000;

const LANGUAGE = ['-std=gnu11', '-ffreestanding', '-fno-asynchronous-unwind-tables'];
/** They end no build: another compiler may have others. The tests make them errors. */
export const WARNINGS = ['-Wall', '-Wextra', '-Wconversion', '-Wshadow', '-Wvla'];
/** Its own memcpy() must not become a call of memcpy(). Sections without a use are left out. */
const SIZE = [
  '-Os',
  '-fno-tree-loop-distribute-patterns',
  '-ffunction-sections',
  '-fdata-sections',
  '-Wl,--gc-sections',
  '-s',
];
/**
 * It reads what others send: it is at an address by chance (static-pie), the stack is checked, and it ends at once where an index is out
 * of its array or a number overflows.
 */
const HARDENED = [
  ...['-fPIE', '-static-pie', '-fstack-protector-strong', '-Wl,-z,noexecstack'],
  ...['-fsanitize=bounds,signed-integer-overflow,shift', '-fsanitize-undefined-trap-on-error'],
];
/** The stack's guard is in a variable, because there is no thread-local memory without a C library; on arm64 it always is. */
const HARDENED_ON: Readonly<Record<string, readonly string[]>> = { 'linux-x64': ['-mstack-protector-guard=global'] };
/** Paths are in no part of it, so that the same sources and compiler make the same bytes. */
const REPRODUCIBLE = ['-Wl,--build-id=none'];

/** The C compiler of Debian for a platform. */
export function compilerOf({ name, compiler }: TargetPlatform): string {
  return name === OWN_PLATFORM ? 'gcc' : compiler.command;
}

/** `more`: flags of the compiler. Throws RuntimeRefused where there is no compiler, and an error with its messages where it fails. */
export async function makeDrainedProgram(
  platform: TargetPlatform,
  output: string,
  more: readonly string[] = [],
): Promise<void> {
  const sources = globSync('*.c', { cwd: DRAINED_SOURCES }).sort();
  const flags = [
    ...LANGUAGE,
    ...WARNINGS,
    ...SIZE,
    ...HARDENED,
    ...(HARDENED_ON[platform.name] ?? []),
    ...REPRODUCIBLE,
    ...more,
  ];
  const args = ['-C', DRAINED_SOURCES, compilerOf(platform), ...flags, '-nostdlib', '-o', output, ...sources];
  const { exitCode, stderr } = await realCommands.run({ file: 'env', args }, NEVER);
  if (exitCode === 127) {
    const packages = platform.name === OWN_PLATFORM ? ['gcc', 'linux-libc-dev'] : platform.compiler.packages;
    const missing = `there is no ${compilerOf(platform)}, which makes ${DRAINED_PROGRAM}`;
    throw new RuntimeRefused(`${platform.name}: ${missing}. Install ${packages.join(', ')} (on Debian)`);
  }
  if (exitCode !== 0) throw new Error(`${compilerOf(platform)} cannot make ${output}: ${stderr}`);
}
