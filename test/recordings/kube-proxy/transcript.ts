/**
 * docs/switching.md: what slicewire says about rules of kube-proxy that are not what the objects ask for.
 *
 *   node test/recordings/kube-proxy/transcript.ts      writes the document; as root
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { OBJECTS } from './objects.ts';
import { MODES, type Recorded, RecordedNode, VERSIONS } from './scene.ts';

const FILE = fileURLToPath(new URL('../../../docs/switching.md', import.meta.url));
/** The document has its transcript behind this line; what is above is written by hand. */
const BEGIN = '<!-- The rest is written by test/recordings/kube-proxy/transcript.ts -->';

interface Named {
  readonly kind: string;
  readonly metadata: { readonly name: string };
}

/** One of three endpoints is replaced, and a Service is deleted. kube-proxy's rules are those of before. */
export const CHANGED: readonly object[] = OBJECTS.flatMap((object): object[] => {
  const { kind, metadata } = object as Named;
  if (metadata.name === 'one' || metadata.name === 'one-1') return [];
  if (kind !== 'EndpointSlice' || metadata.name !== 'web-1') return [object];
  const [first, , third] = (object as { endpoints: object[] }).endpoints;
  return [{ ...object, endpoints: [first, third, { ...third, addresses: ['10.244.2.19'] }] }];
});

async function tell({ version, mode }: Recorded): Promise<string> {
  const node = await RecordedNode.create({ version, mode });
  const told = async (...words: string[]) =>
    `$ slicewire ${words.join(' ')} --of kube-proxy\n${(await node.ask(...words)).text}`;
  try {
    await node.reset();
    const before = await told('verify');
    await node.write(CHANGED);
    const after = [await told('verify'), await told('explain', '10.244.1.77', 'svc/shop/web')];
    return [
      `## kube-proxy ${version} in ${mode} mode\n`,
      'All is as the objects ask for:\n',
      `\`\`\`console\n${before}\`\`\`\n`,
      'An endpoint of Service `shop/web` was replaced, Service `shop/one` was deleted, and kube-proxy has not synced:\n',
      `\`\`\`console\n${after.join('\n')}\`\`\`\n`,
    ].join('\n');
  } finally {
    await node.remove();
  }
}

/** Of the newest version that was recorded. */
export async function transcript(): Promise<string> {
  const version = VERSIONS.at(-1) ?? '';
  const told: string[] = [];
  for (const mode of MODES) told.push(await tell({ version, mode }));
  return told.join('\n');
}

export function transcriptInDocument(): string {
  return readFileSync(FILE, 'utf8').split(`${BEGIN}\n\n`)[1] ?? '';
}

if (import.meta.main) {
  const [head] = readFileSync(FILE, 'utf8').split(BEGIN);
  writeFileSync(FILE, `${head}${BEGIN}\n\n${await transcript()}`);
}
