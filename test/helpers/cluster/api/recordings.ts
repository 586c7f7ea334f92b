/** Recorded answers of a real kube-apiserver (test/data/apiserver/README.md). */
import { readdirSync, readFileSync } from 'node:fs';

const FOLDER = new URL('../../../data/apiserver/', import.meta.url);

export interface Recording {
  readonly request: { readonly method: string; readonly path: string };
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Of JSON its text, of protobuf base64. */
  readonly body: string;
}

/** `name`: within test/data/apiserver, without `.json`. */
export function recording(name: string): Recording {
  return JSON.parse(readFileSync(new URL(`${name}.json`, FOLDER), 'utf8'));
}

export function bytesOf({ body, headers }: Pick<Recording, 'body' | 'headers'>): Buffer {
  return Buffer.from(body, headers['content-type']?.includes('protobuf') ? 'base64' : 'utf8');
}

/** Names of all recordings in a folder within test/data/apiserver. */
export function recordingsIn(folder: string): string[] {
  const files = readdirSync(new URL(folder, FOLDER)).filter((file) => file.endsWith('.json'));
  return files.map((file) => `${folder}${file.replace(/\.json$/, '')}`).sort();
}
