/**
 * The files of the live pages: the agent's (docs/observe.md, The page), the fleet's (docs/fleet.md) and the shadow's (docs/shadow.md). They are kept and sent
 * compressed. A client that may not ask questions does not get the page either, because it would show nothing.
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

/** All pages have the same style and icon. */
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
export const SHADOW_PAGE = filesOf('shadow.html', 'shadow.js');

/** Reads a file of the page, compressed by gzip. Rejects with the reason when there is none. */
export type ReadPage = (name: string) => Promise<Uint8Array>;

/** Nothing is loaded from another host, no inline text is a script or style, and the page is in no frame. */
const HEADERS = {
  'content-security-policy': "default-src 'self'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
  // A newer agent has another page, so the browser must ask each time whether its copy is current.
  'cache-control': 'no-cache',
  vary: 'accept-encoding',
} as const;

/**
 * undefined where the path is none of the page. The method must be GET or HEAD. `files`: the page. `refusalOf`: the reason
 * why this client is not answered.
 */
export function pageAnswer(
  files: PageFiles,
  read: ReadPage,
  refusalOf: (request: HttpRequest) => string | undefined,
  request: HttpRequest,
): Promise<Answer> | undefined {
  const file = files.get(request.path);
  return file === undefined ? undefined : fileAnswer(file, read, refusalOf(request), request);
}

async function fileAnswer(
  file: PageFile,
  read: ReadPage,
  refusal: string | undefined,
  request: HttpRequest,
): Promise<Answer> {
  if (refusal !== undefined) return textAnswer(403, `${refusal}\n`);
  const packed = await readOr(read, file.name);
  if (typeof packed === 'string') return textAnswer(503, `${packed}\n`);
  const isPacked = acceptsGzip(request.encodings);
  const etag = `"${createHash('sha256').update(packed).digest('base64url')}${isPacked ? '-gzip' : ''}"`;
  const headers = { ...HEADERS, etag };
  // The weak comparison (RFC 9110, section 13.1.2).
  const known = request.known?.split(',').map((one) => one.trim().replace(/^W\//, '')) ?? [];
  if (known.includes(etag)) return { status: 304, headers, body: '' };
  const encoding = isPacked ? { 'content-encoding': 'gzip' } : {};
  const body = isPacked ? Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength) : gunzipSync(packed);
  return { status: 200, headers: { ...headers, 'content-type': file.type, ...encoding }, body };
}

/** The file, or the reason why there is none. */
async function readOr(read: ReadPage, name: string): Promise<Uint8Array | string> {
  try {
    return await read(name);
  } catch (error) {
    return causeOf(error);
  }
}
