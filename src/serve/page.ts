/**
 * The files of the live pages: the agent's (docs/operations.md, The page) and the fleet's (docs/fleet.md). They are kept and sent
 * compressed. Who may not ask questions does not get the page either: it would show nothing.
 */
import { createHash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { causeOf } from '../base/cause.ts';
import { type Answer, acceptsGzip, type HttpRequest, textAnswer } from './http.ts';

interface PageFile {
  readonly name: string;
  /** The content type. */
  readonly type: string;
}

/** By path. */
export type PageFiles = ReadonlyMap<string, PageFile>;

/** Style and icon are the same. */
function filesOf(html: string, script: string): PageFiles {
  return new Map([
    ['/', { name: html, type: 'text/html; charset=utf-8' }],
    [`/page/${script}`, { name: script, type: 'text/javascript; charset=utf-8' }],
    ['/page/page.css', { name: 'page.css', type: 'text/css; charset=utf-8' }],
    ['/page/icon.svg', { name: 'icon.svg', type: 'image/svg+xml' }],
  ]);
}

export const AGENT_PAGE = filesOf('page.html', 'page.js');
export const FLEET_PAGE = filesOf('fleet.html', 'fleet.js');

/** A file of the page, as gzip wrote it. Rejects with the reason when there is none. */
export type ReadPage = (name: string) => Promise<Uint8Array>;

/** Nothing of another host, no text of the page itself as a script or style, and in no frame. */
const HEADERS = {
  'content-security-policy': "default-src 'self'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
  // A newer agent has another page: the browser asks each time whether its own is still right.
  'cache-control': 'no-cache',
  vary: 'accept-encoding',
} as const;

/**
 * The answer; undefined when the path is none of the page. The method is GET or HEAD. `refusalOf`: why this client is not answered.
 * `files`: AGENT_PAGE or FLEET_PAGE.
 */
export function pageAnswer(
  files: PageFiles,
  read: ReadPage,
  refusalOf: (asked: HttpRequest) => string | undefined,
  asked: HttpRequest,
): Promise<Answer> | undefined {
  const file = files.get(asked.path);
  return file === undefined ? undefined : fileAnswer(file, read, refusalOf(asked), asked);
}

async function fileAnswer(
  file: PageFile,
  read: ReadPage,
  refusal: string | undefined,
  asked: HttpRequest,
): Promise<Answer> {
  if (refusal !== undefined) return textAnswer(403, `${refusal}\n`);
  const packed = await readOr(read, file.name);
  if (typeof packed === 'string') return textAnswer(503, `${packed}\n`);
  const isPacked = acceptsGzip(asked.encodings);
  const etag = `"${createHash('sha256').update(packed).digest('base64url')}${isPacked ? '-gzip' : ''}"`;
  const headers = { ...HEADERS, etag };
  // By the weak comparison of RFC 9110, section 13.1.2.
  const known = asked.known?.split(',').map((one) => one.trim().replace(/^W\//, '')) ?? [];
  if (known.includes(etag)) return { status: 304, headers, body: '' };
  const encoding = isPacked ? { 'content-encoding': 'gzip' } : {};
  const body = isPacked ? Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength) : gunzipSync(packed);
  return { status: 200, headers: { ...headers, 'content-type': file.type, ...encoding }, body };
}

/** The file, or why there is none. */
async function readOr(read: ReadPage, name: string): Promise<Uint8Array | string> {
  try {
    return await read(name);
  } catch (error) {
    return causeOf(error);
  }
}
