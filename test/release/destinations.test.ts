/** The last lines of a release: each file with its place. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { destinations } from '../../scripts/release/destinations.ts';

const FILES = [
  ...['amd64', 'arm64'].flatMap((arch) => [
    `slicewire-0.1.0-linux-${arch}.tar.gz`,
    `slicewire-0.1.0-linux-${arch}.spdx.json`,
    `slicewire-0.1.0-image-linux-${arch}.oci.tar`,
  ]),
  ...['slicewire-0.1.0.tgz', 'RELEASE_NOTES.md', 'SHA256SUMS'],
];

describe('the files of a release', () => {
  const lines = destinations(FILES, '0.1.0');

  it('have a place each, in the order of their names', () => {
    assert.deepEqual(
      lines.map((line) => line.split(' ')[0]),
      FILES.toSorted(),
    );
  });

  it('name the command that brings images and chart there', () => {
    const image = lines.find((line) => line.includes('image-linux-arm64'));
    assert.match(image ?? '', /skopeo copy oci-archive:\S+-arm64\.oci\.tar docker:\/\/\S+\/slicewire:0\.1\.0-arm64$/);
    assert.match(
      lines.find((line) => line.startsWith('slicewire-0.1.0.tgz')) ?? '',
      /helm push slicewire-0\.1\.0\.tgz/,
    );
  });

  it('are refused when one is none of a release', () => {
    assert.throws(() => destinations(['core'], '0.1.0'), /core is no file of a release/);
  });
});
