/** The addresses of this node's interfaces. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  FactUnknown,
  hasFamily,
  hasIpvs,
  interfaceAddresses,
  legacyTables,
  type ProcFiles,
  setNames,
} from '../../src/kernel/node-facts.ts';
import { isReadOnly } from '../../src/kernel/sysctls.ts';

/** Every file of /proc is there, or each answer is this error. */
function filesOf(code: string | undefined, isRoot = true): ProcFiles {
  const answer = <T>(value: T) =>
    code === undefined
      ? Promise.resolve(value)
      : Promise.reject(Object.assign(new Error(`${code}: it says`), { code }));
  const read = (path: string) => answer(path.endsWith('disable_ipv6') ? '0\n' : 'filter\nmangle\n');
  return { read, stat: () => answer({}), isRoot };
}

const FACTS = {
  hasLegacyTables: async (files: ProcFiles) => (await legacyTables('IPv6', files)).length > 0,
  hasIpvs,
  hasIPv6: (files: ProcFiles) => hasFamily('IPv6', files),
};

describe('facts of files', () => {
  for (const [name, fact] of Object.entries(FACTS)) {
    it(`are unknown where the file cannot be read, and false only where it is missing: ${name}`, async () => {
      assert.equal(await fact(filesOf(undefined)), true);
      assert.equal(await fact(filesOf('ENOENT')), false);
      for (const code of ['EMFILE', 'ENOMEM', 'EIO', 'EACCES']) {
        await assert.rejects(fact(filesOf(code)), (error) => {
          assert.ok(error instanceof FactUnknown);
          assert.match(
            error.message,
            new RegExp(`^a fact of this node is unknown: /proc/.* cannot be read: ${code}: it says$`),
          );
          return true;
        });
      }
    });
  }

  it('the tables of the legacy variant are those of the family', async () => {
    const of = { '/proc/thread-self/net/ip_tables_names': 'nat\n', '/proc/thread-self/net/ip6_tables_names': '' };
    const files = { ...filesOf(undefined), read: (path: string) => Promise.resolve(of[path as keyof typeof of]) };
    assert.deepEqual([await legacyTables('IPv4', files), await legacyTables('IPv6', files)], [['nat'], []]);
  });

  it('a process that is not root may not read the names of legacy tables, and has none', async () => {
    assert.deepEqual(await legacyTables('IPv4', filesOf('EACCES', false)), []);
    assert.deepEqual(await legacyTables('IPv4', filesOf(undefined)), ['filter', 'mangle']);
    await assert.rejects(legacyTables('IPv4', filesOf('EMFILE', false)), FactUnknown);
  });

  it('a kernel whose module of sets is not loaded has none, and is not asked', async () => {
    assert.deepEqual(await setNames(filesOf('ENOENT')), []);
    await assert.rejects(setNames(filesOf('EMFILE')), FactUnknown);
  });

  it('a setting that cannot be looked at is not taken for a writable one', async () => {
    assert.equal(await isReadOnly('net/ipv4/none-of-this-name'), false);
    await assert.rejects(isReadOnly('/proc/version/x'), { code: 'ENOTDIR' });
  });
});

describe('addresses of interfaces', () => {
  it('contain loopback, and no address twice', async () => {
    const found = await interfaceAddresses('IPv4');
    assert.ok(found.some((address) => address === '127.0.0.1'));
    assert.equal(new Set(found).size, found.length);
  });

  it('contain no IPv6 link-local address', async () => {
    assert.deepEqual(
      (await interfaceAddresses('IPv6')).filter((address) => address.startsWith('fe80:')),
      [],
    );
  });
});
