/** The seeds that are files: copies of what real programs sent. */
import { readdirSync, readFileSync } from 'node:fs';

const file = (path: string) => new URL(path, import.meta.url);

/** Objects of a real API server and of a real controller manager, and some with every field that is read; each as JSON. */
export function objectTexts(): Buffer[] {
  const objects: unknown[] = JSON.parse(readFileSync(file('objects.json'), 'utf8'));
  return objects.map((object) => Buffer.from(JSON.stringify(object)));
}

/** The body of a recorded answer of a real API server. */
export function recordedBody(name: string): Buffer {
  const { body }: { body: string } = JSON.parse(readFileSync(file(`../../data/apiserver/${name}.json`), 'utf8'));
  return name.startsWith('protobuf/') && !name.endsWith('as-json') ? Buffer.from(body, 'base64') : Buffer.from(body);
}

/** The files of a folder in this one, in the order of their names. */
export function corpusFiles(folder: string): Buffer[] {
  return readdirSync(file(`${folder}/`))
    .sort()
    .map((name) => readFileSync(file(`${folder}/${name}`)));
}
