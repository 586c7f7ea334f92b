/** The place of each file of a release, for the person who publishes it. */

/** The registry in all documents and manifests; deploy/ names it, and everybody replaces it by their own. */
const REGISTRY = 'registry.example';

/** A line for each file of a release of this version, in the order of the names. Throws RangeError for a file that no release has. */
export function destinations(files: readonly string[], version: string): string[] {
  const names = files.toSorted();
  const width = Math.max(...names.map((name) => name.length));
  return names.map((name) => `${name.padEnd(width)}  ${destinationOf(name, version)}`);
}

function destinationOf(name: string, version: string): string {
  const page = `the page of the release v${version}`;
  const [, arch] = /-image-linux-(\w+)\.oci\.tar$/.exec(name) ?? [];
  if (arch !== undefined)
    return `a registry: skopeo copy oci-archive:${name} docker://${REGISTRY}/slicewire:${version}-${arch}`;
  if (name.endsWith('.tar.gz')) return `${page}: executable, unit and manual pages of a node`;
  if (name.endsWith('.spdx.json')) return `${page}, beside the file that it lists`;
  if (name === `slicewire-${version}.tgz`) return `a repository of charts: helm push ${name} oci://${REGISTRY}/charts`;
  if (name === 'RELEASE_NOTES.md') return `${page}, as its text`;
  if (name === 'SHA256SUMS') return `${page}; sign it first`;
  throw new RangeError(`${name} is no file of a release`);
}
