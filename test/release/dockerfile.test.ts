/** The release builds stages of deploy/Dockerfile: what is written there twice could differ. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { stagesOf } from '../../scripts/release/image.ts';

const OURS = readFileSync(fileURLToPath(new URL('../../deploy/Dockerfile', import.meta.url)), 'utf8');

describe('the stages of deploy/Dockerfile', () => {
  const { system, image } = stagesOf(OURS);

  it('has a system of the base image, with nothing of the build', () => {
    assert.match(system, /^ARG BASE_IMAGE\nFROM \$\{BASE_IMAGE\} AS system\nRUN apt-get update/);
    assert.match(system, / iptables kmod libatomic1 libstdc\+\+6 /);
    assert.equal(system.match(/^FROM /gm)?.length, 1);
    assert.doesNotMatch(system, /COPY/);
  });

  it('has an image of that system, of files that are there, and with the command of the original', () => {
    const lines = image('localhost/system:1').trim().split('\n');
    assert.deepEqual(lines, [
      'FROM localhost/system:1',
      'COPY slicewire /usr/local/bin/slicewire',
      'COPY slicewire-drained /usr/local/bin/slicewire-drained',
      'COPY doc /usr/share/doc/slicewire',
      'ENTRYPOINT ["/usr/local/bin/slicewire"]',
      'CMD ["run"]',
    ]);
  });

  it('are not guessed when the file is built differently', () => {
    assert.throws(() => stagesOf('FROM debian\n'), /no stage «system»/);
    assert.throws(() => stagesOf(OURS.replace('FROM system\n', 'FROM build\n')), /last stage/);
    assert.throws(() => stagesOf(OURS.replaceAll('--from=documents', '--from=build')), /documents/);
  });
});
