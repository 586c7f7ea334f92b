/** Texts as the manifests source takes them in, without the thread that reads files. */
import { type ParsedFile, readObjects, type Value } from '../../../../src/cluster/documents/documents.ts';
import {
  documentFaults,
  type FileDraft,
  type ManifestStore,
} from '../../../../src/cluster/source/manifests/manifest-store.ts';
import { type FileFlags, flagsFromFile } from '../../../../src/config/config-file.ts';
import type { Flags } from '../../../../src/config/flags.ts';
import type { Fault } from '../../../../src/proxy/model/objects.ts';

type Read = Pick<ParsedFile, 'problems' | 'problemCount'> & { readonly values: readonly Value[] };

export function readText(text: string, mayRepeat = false): Read {
  const parts = [...readObjects(text, mayRepeat)];
  const problems = parts.filter((part) => part.kind === 'problem');
  return { values: parts.filter((part) => part.kind === 'value'), problems, problemCount: problems.length };
}

export function readDocuments(text: string, file: string): { objects: readonly unknown[]; faults: readonly Fault[] } {
  const { values, ...read } = readText(text);
  return { objects: values.map(({ value }) => value), faults: documentFaults({ file, stays: '' }, read) };
}

/** The objects of a text in which nothing is wrong. */
export function objectsOf(text: string): object[] {
  const { values, problems } = readText(text);
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  return values.map(({ value }) => value as object);
}

export function flagsFromText(text: string, commandLine: Flags): FileFlags {
  return flagsFromFile(readText(text, true), commandLine);
}

/** What a file with this text is going to say. */
export function draftOf(store: ManifestStore, file: string, text: string): FileDraft {
  const draft = store.draft(file);
  draft.add(readText(text).values);
  return draft;
}

/** Take in a file with this text. */
export function setText(store: ManifestStore, file: string, text: string): void {
  store.set(draftOf(store, file, text), readText(text));
}
