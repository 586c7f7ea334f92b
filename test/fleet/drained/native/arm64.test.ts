/** `slicewire-drained` for arm64, here by an emulator that has no library for it. */
import assert from 'node:assert/strict';
import { stat } from 'node:fs/promises';
import { it } from 'node:test';
import { MAX_DRAINED_BYTES } from '../../../../scripts/executable/drained-program.ts';
import { OWN_PLATFORM, platformNamed } from '../../../../scripts/executable/platform.ts';
import { describeCommand } from '../command-stories.ts';
import { madeDrainedProgram } from '../forms.ts';

const ARM64 = platformNamed('linux-arm64');

describeCommand('slicewire-drained on arm64', async () => {
  const program = await madeDrainedProgram(ARM64);
  return ARM64.name === OWN_PLATFORM ? [program] : [ARM64.emulator, program];
});

it('is small on arm64', async () => {
  const { size } = await stat(await madeDrainedProgram(ARM64));
  assert.ok(size < MAX_DRAINED_BYTES, `${size} bytes`);
});
