/** Where the agent keeps its history on disk. */
import type { RecordingConfig } from './config.ts';
import { type Reader, readSize } from './readers.ts';

const MEBIBYTE = 2 ** 20;

export function readRecording(read: Reader): RecordingConfig | undefined {
  const folder = read.text('record-dir');
  const size = readSize(read, 'record-size', { initial: '64Mi', least: MEBIBYTE, most: 2 ** 40 });
  if (folder === undefined) return undefined;
  if (folder === '') read.fault('record-dir', 'must name a folder');
  return { folder, size };
}
