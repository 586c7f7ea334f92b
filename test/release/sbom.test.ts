/** The bill of materials: complete, the same for the same contents, and in the form of SPDX 2.3. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { bundledPackages } from '../../scripts/bundle.ts';
import { platformNamed } from '../../scripts/executable/platform.ts';
import { type Contents, contentsOf, distribution, installedPackages, sbomText } from '../../scripts/release/sbom.ts';
import { sha256 } from '../../scripts/runtime.ts';

const STATUS = `Package: libstdc++6
Status: install ok installed
Maintainer: Debian GCC Maintainers <debian-gcc@lists.debian.org>
Architecture: arm64
Multi-Arch: same
Source: gcc-12
Version: 12.2.0-14+deb12u1
Description: GNU Standard C++ Library v3
 This package contains an additional runtime library.
Homepage: http://gcc.gnu.org/

Package: gone
Status: deinstall ok config-files
Architecture: arm64
Version: 1

Package: bash
Status: install ok installed
Architecture: arm64
Source: bash (5.2.15-2)
Version: 5.2.15-2+b13
`;

const CONTENTS: Contents = {
  ...{ name: 'slicewire', version: '0.1.0', license: 'Apache-2.0', architecture: 'arm64', epoch: 1_795_000_000 },
  executable: 'a'.repeat(64),
  drained: 'd'.repeat(64),
  node: { version: '26.10.0', sha256: 'b'.repeat(64), parts: { v8: '14.1', openssl: '3.5.4', modules: '147' } },
  npm: [{ name: '@kubernetes/client-node', version: '2.0.1', license: 'Apache-2.0', integrity: 'sha512-AAEC' }],
  image: { packages: installedPackages(STATUS), distribution: 'debian-12' },
};

interface Package {
  readonly SPDXID: string;
  readonly name: string;
  readonly versionInfo?: string;
  readonly licenseDeclared: string;
  readonly checksums?: readonly { readonly algorithm: string; readonly checksumValue: string }[];
  readonly externalRefs?: readonly { readonly referenceLocator: string }[];
  readonly sourceInfo?: string;
  readonly supplier?: string;
}

interface Document {
  readonly [field: string]: unknown;
  readonly documentNamespace: string;
  readonly packages: readonly Package[];
  readonly relationships: readonly {
    readonly spdxElementId: string;
    readonly relationshipType: string;
    readonly relatedSpdxElement: string;
  }[];
}

const parsed = (contents: Contents) => JSON.parse(sbomText(contents)) as Document;

describe('the database of dpkg', () => {
  it('has the installed packages, sorted, with their sources', () => {
    const [bash, library] = installedPackages(STATUS);
    assert.deepEqual([bash?.name, bash?.source, bash?.maintainer], ['bash', 'bash 5.2.15-2', undefined]);
    assert.deepEqual(library, {
      ...{ name: 'libstdc++6', version: '12.2.0-14+deb12u1', architecture: 'arm64' },
      source: 'gcc-12 12.2.0-14+deb12u1',
      maintainer: 'Debian GCC Maintainers <debian-gcc@lists.debian.org>',
      homepage: 'http://gcc.gnu.org/',
    });
    assert.equal(installedPackages(STATUS).length, 2);
  });

  it('is refused when it is empty, or when a package has no version', () => {
    assert.throws(() => installedPackages(''), /names no installed package/);
    assert.throws(
      () => installedPackages('Package: odd\nStatus: install ok installed\nArchitecture: all\n'),
      /without the field Version: Package odd/,
    );
  });

  it('belongs to a distribution with a version, or to one that does not say', () => {
    assert.equal(distribution('NAME="Debian GNU/Linux"\nVERSION_ID="12"\nID=debian\n'), 'debian-12');
    assert.equal(distribution('ID=debian\n'), undefined);
  });
});

describe('the bill of materials', () => {
  it('is a document of SPDX 2.3 whose only time is the given one', () => {
    const document = parsed(CONTENTS);
    assert.deepEqual(
      [document.spdxVersion, document.dataLicense, document.SPDXID, document.name],
      ['SPDX-2.3', 'CC0-1.0', 'SPDXRef-DOCUMENT', 'slicewire-0.1.0-image-linux-arm64'],
    );
    assert.deepEqual(document.creationInfo, {
      created: '2026-11-18T11:06:40Z',
      creators: ['Tool: slicewire-sbom-0.1.0'],
    });
    assert.equal(sbomText(CONTENTS).match(/"\d{4}-\d\d-\d\dT/g)?.length, 1);
  });

  it('is the same text for the same contents, and has another namespace for others', () => {
    assert.equal(sbomText(CONTENTS), sbomText(structuredClone(CONTENTS)));
    const other = parsed({ ...CONTENTS, executable: 'c'.repeat(64) });
    assert.notEqual(other.documentNamespace, parsed(CONTENTS).documentNamespace);
    assert.match(
      other.documentNamespace,
      /^https:\/\/spdx\.org\/spdxdocs\/slicewire-0\.1\.0-image-linux-arm64-[0-9a-f]{64}$/,
    );
  });

  it('has names that SPDX allows, each once, and relationships between packages that exist', () => {
    const { packages, relationships } = parsed(CONTENTS);
    const ids = packages.map(({ SPDXID }) => SPDXID);
    for (const id of ids) assert.match(id, /^SPDXRef-[A-Za-z0-9.-]+$/);
    assert.equal(new Set(ids).size, ids.length);
    for (const { spdxElementId, relatedSpdxElement } of relationships) {
      assert.ok(ids.includes(relatedSpdxElement), relatedSpdxElement);
      assert.ok(['SPDXRef-DOCUMENT', ...ids].includes(spdxElementId), spdxElementId);
    }
    // Each package is named by exactly one other one, or by the document.
    assert.deepEqual(relationships.map((one) => one.relatedSpdxElement).sort(), [...ids].sort());
  });

  it('names packages as scanners look for them, with hashes in hexadecimal', () => {
    const { packages } = parsed(CONTENTS);
    const purls = packages.flatMap(({ externalRefs = [] }) => externalRefs.map((one) => one.referenceLocator));
    assert.deepEqual(purls, [
      'pkg:generic/slicewire@0.1.0?arch=arm64',
      'pkg:generic/slicewire@0.1.0?arch=arm64#slicewire-drained',
      'pkg:generic/node@26.10.0',
      'pkg:generic/openssl@3.5.4',
      'pkg:generic/v8@14.1',
      'pkg:npm/%40kubernetes/client-node@2.0.1',
      'pkg:deb/debian/bash@5.2.15-2%2Bb13?arch=arm64&distro=debian-12',
      'pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=arm64&distro=debian-12',
    ]);
    const npm = packages.find(({ name }) => name === '@kubernetes/client-node');
    assert.deepEqual(npm?.checksums, [{ algorithm: 'SHA512', checksumValue: '000102' }]);
    const library = packages.find(({ name }) => name === 'libstdc++6');
    assert.equal(library?.supplier, 'Organization: Debian GCC Maintainers (debian-gcc@lists.debian.org)');
    assert.match(library?.sourceInfo ?? '', /source package gcc-12 12\.2\.0-14\+deb12u1; .*libstdc\+\+6\/copyright$/);
  });

  it('of an executable names every npm package of the bundle, the pinned Node.js and its parts, and no Debian package', async () => {
    const executable = fileURLToPath(import.meta.url);
    const drained = fileURLToPath(new URL('dockerfile.test.ts', import.meta.url));
    const platform = platformNamed('linux-arm64');
    const { packages, relationships } = parsed(await contentsOf({ platform, executable, drained, epoch: 0 }));
    const names = new Set(packages.map(({ name }) => name));
    for (const path of await bundledPackages('src/main.ts'))
      assert.ok(names.has(path.replace(/^.*node_modules\//, '')), path);
    for (const name of ['slicewire', 'node', 'openssl', 'v8', 'uv', 'nghttp2']) assert.ok(names.has(name), name);
    for (const name of ['typescript', 'esbuild', 'playwright-core', 'iptables']) assert.ok(!names.has(name), name);
    const own = packages.find(({ name }) => name === 'slicewire');
    assert.deepEqual(own?.checksums, [{ algorithm: 'SHA256', checksumValue: await sha256(executable) }]);
    const small = packages.find(({ name }) => name === 'slicewire-drained');
    assert.deepEqual(small?.checksums, [{ algorithm: 'SHA256', checksumValue: await sha256(drained) }]);
    const described = relationships.filter(({ relationshipType }) => relationshipType === 'DESCRIBES');
    assert.deepEqual(
      described.map(({ relatedSpdxElement }) => relatedSpdxElement),
      [own?.SPDXID, small?.SPDXID],
    );
    assert.ok(packages.every(({ versionInfo }) => versionInfo !== undefined && versionInfo !== ''));
  });
});
