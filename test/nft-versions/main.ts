/** `npm run nft-versions`: asks every version of nft and iptables that Debian carries, and writes docs/reference/nft-versions.md. Needs root. */
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../scripts/arguments.ts';
import { type Column, Matrix, page } from './matrix.ts';

commandLine({
  command: 'npm run nft-versions',
  about:
    'Asks every version of nft and iptables that Debian carries, and writes docs/reference/nft-versions.md. Needs root.',
});

const PAGE = fileURLToPath(new URL('../../docs/reference/nft-versions.md', import.meta.url));

const matrix = await Matrix.open();
try {
  const { nftables, iptables, installed, missing } = matrix.versions;
  for (const { suite, cause } of missing) process.stderr.write(`${suite} was not asked: ${cause}\n`);
  const nftColumns: Column[] = [];
  for (const version of nftables) nftColumns.push(await matrix.nft(version));
  const iptablesColumns: Column[] = [];
  for (const version of iptables) iptablesColumns.push(await matrix.iptables(version));
  const facts = { date: new Date().toISOString().slice(0, 10), writer: installed.iptables };
  await writeFile(PAGE, page(nftColumns, iptablesColumns, facts));
  process.stdout.write(`wrote ${PAGE}\n`);
} finally {
  await matrix.close();
}
