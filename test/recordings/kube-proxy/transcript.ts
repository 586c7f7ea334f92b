/**
 * docs/switching.md: what slicewire says about rules of kube-proxy that are not what the objects ask for.
 *
 *   node test/recordings/kube-proxy/transcript.ts            writes the document but for IPVS mode; as root
 *   SLICEWIRE_VM_OUT=FOLDER sh test/vm/machine/machine.sh run node test/recordings/kube-proxy/transcript.ts ipvs
 *                                                            writes it with IPVS mode anew into the folder
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { OBJECTS } from './objects.ts';
import { MODES, type Recorded, RecordedNode, VERSIONS } from './scene.ts';

const FILE = fileURLToPath(new URL('../../../docs/switching.md', import.meta.url));
/** The document has its transcripts behind these lines; the text above is written by hand. */
const BEGIN = '<!-- The rest is written by test/recordings/kube-proxy/transcript.ts -->';
const IPVS_BEGIN = '<!-- And this by the same program where the kernel has IPVS -->';

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
      `## kube-proxy ${version} in ${mode === 'ipvs' ? 'IPVS' : mode} mode\n`,
      'All is as the objects ask for:\n',
      `\`\`\`console\n${before}\`\`\`\n`,
      'An endpoint of Service `shop/web` was replaced, Service `shop/one` was deleted, and kube-proxy has not synced:\n',
      `\`\`\`console\n${after.join('\n')}\`\`\`\n`,
    ].join('\n');
  } finally {
    await node.remove();
  }
}

/** A section for each mode, of the newest version that was recorded. */
export async function transcript(modes: readonly Recorded['mode'][] = MODES): Promise<string> {
  const version = VERSIONS.at(-1) ?? '';
  const told: string[] = [];
  for (const mode of modes) told.push(await tell({ version, mode }));
  return told.join('\n');
}

interface Document {
  readonly head: string;
  /** Of the modes that every kernel has. */
  readonly plain: string;
  readonly ipvs: string;
}

export function switchingDocument(): Document {
  const [head = '', rest = ''] = readFileSync(FILE, 'utf8').split(`${BEGIN}\n\n`);
  const [plain = '', ipvs = ''] = rest.split(`\n${IPVS_BEGIN}\n\n`);
  return { head, plain, ipvs };
}

function documentText({ head, plain, ipvs }: Document): string {
  return `${head}${BEGIN}\n\n${plain}\n${IPVS_BEGIN}\n\n${ipvs}`;
}

if (import.meta.main) {
  const { SLICEWIRE_VM_OUT: folder = '' } = process.env;
  if (process.argv[2] === 'ipvs')
    writeFileSync(
      join(folder, 'switching.md'),
      documentText({ ...switchingDocument(), ipvs: await transcript(['ipvs']) }),
    );
  else writeFileSync(FILE, documentText({ ...switchingDocument(), plain: await transcript() }));
}
