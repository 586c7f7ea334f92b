/**
 * Credentials that need no client-node: certificates, tokens and passwords of a kubeconfig, and the token of a pod. client-node loads
 * a megabyte of code, and remains for kubeconfigs with an exec or auth-provider credential or a proxy, and for those that it refuses.
 * Files are read for each request, as client-node does, so that renewed certificates and tokens are used.
 */
import { readFile } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import { isIPv6 } from 'node:net';
import { dirname, isAbsolute, join } from 'node:path';
import { fieldsOf } from './api-status.ts';

/** A file, or base64 of what would be in it. The file comes first. */
interface FileOrData {
  readonly file: string | undefined;
  readonly data: string | undefined;
}

/** What a kubeconfig says of the current context, with absolute paths. Each part may be missing. */
export interface PlainAccess {
  /** URL of the API server. */
  readonly server: string;
  readonly skipsVerify: boolean;
  readonly tlsServerName?: string | undefined;
  readonly ca?: FileOrData;
  readonly cert?: FileOrData;
  readonly key?: FileOrData;
  readonly token?: string | undefined;
  /** Overrides `token`. */
  readonly tokenFile?: string | undefined;
  readonly basic?: string | undefined;
  readonly impersonates?: string | undefined;
}

/** Where a pod has the files of its service account (https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/). */
const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';
/** Ports on which client-node expects an API server without TLS. */
const WITHOUT_TLS = ['80', '8080', '8001'];

/** Access of a pod. */
export function podAccess(env: NodeJS.ProcessEnv, folder = SERVICE_ACCOUNT): PlainAccess {
  const { KUBERNETES_SERVICE_HOST: host = '', KUBERNETES_SERVICE_PORT: port = '' } = env;
  const scheme = WITHOUT_TLS.includes(port) ? 'http' : 'https';
  return {
    server: `${scheme}://${isIPv6(host) ? `[${host}]` : host}:${port}`,
    skipsVerify: false,
    ca: { file: `${folder}/ca.crt`, data: undefined },
    tokenFile: `${folder}/token`,
  };
}

/** `file`: the object in the kubeconfig at `path`. undefined: client-node must read it. */
export function plainAccess(file: object, path: string): PlainAccess | undefined {
  const lists = fieldsOf(file);
  const contexts = named(lists.contexts, 'context', 'cluster');
  const clusters = named(lists.clusters, 'cluster', 'server');
  const users = named(lists.users, 'user');
  const context = contexts?.get(lists['current-context']);
  const cluster = clusters?.get(context?.cluster);
  const user = users?.get(context?.user);
  if (cluster === undefined || user === undefined || needsClientNode(cluster, user)) return undefined;
  const folder = dirname(path);
  const of = (object: KubeconfigEntry, field: string): FileOrData => {
    const name = text(object[field]);
    const file = name === undefined || isAbsolute(name) ? name : join(folder, name);
    return { file, data: text(object[`${field}-data`]) };
  };
  const username = text(user.username);
  return {
    server: String(cluster.server).replace(/\/$/, ''),
    skipsVerify: cluster['insecure-skip-tls-verify'] === true,
    tlsServerName: text(cluster['tls-server-name']),
    ca: of(cluster, 'certificate-authority'),
    cert: of(user, 'client-certificate'),
    key: of(user, 'client-key'),
    token: text(user.token),
    basic: username === undefined ? undefined : `${username}:${text(user.password)}`,
    impersonates: text(user.as),
  };
}

type KubeconfigEntry = Readonly<Record<string, unknown>>;

/** The entries of a list by name. undefined: the list or an entry of it is not as it should be. */
function named(list: unknown, inner: string, needed?: string): Map<unknown, KubeconfigEntry> | undefined {
  if (!Array.isArray(list)) return undefined;
  const entries = new Map<unknown, KubeconfigEntry>();
  for (const one of list) {
    const { name, [inner]: value } = fieldsOf(one);
    const entry = fieldsOf(value);
    if (text(name) === undefined) return undefined;
    if (needed !== undefined && text(entry[needed]) === undefined) return undefined;
    // The first of a name counts.
    if (!entries.has(name)) entries.set(name, entry);
  }
  return entries;
}

const TEXTS_OF_CLUSTER = ['tls-server-name', 'certificate-authority', 'certificate-authority-data'];
const TEXTS_OF_USER = [
  'client-certificate',
  'client-certificate-data',
  'client-key',
  'client-key-data',
  'token',
  'username',
  'password',
  'as',
];

/** Beside what is not plain, values of another type: what they mean is up to client-node. */
function needsClientNode(cluster: KubeconfigEntry, user: KubeconfigEntry): boolean {
  if (isSet(cluster['proxy-url']) || ['exec', 'auth-provider', 'token-file'].some((field) => isSet(user[field])))
    return true;
  if (isSet(user.username) && !isSet(user.password)) return true;
  const isOdd = (of: KubeconfigEntry) => (field: string) => isSet(of[field]) && typeof of[field] !== 'string';
  return TEXTS_OF_CLUSTER.some(isOdd(cluster)) || TEXTS_OF_USER.some(isOdd(user));
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null && value !== '';
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Sets the headers and certificates of a request. Rejects with the error of a file that cannot be read. */
export async function applyPlain(access: PlainAccess, options: RequestOptions): Promise<void> {
  const [ca, cert, key, token] = await Promise.all([
    bytes(access.ca),
    bytes(access.cert),
    bytes(access.key),
    access.tokenFile === undefined ? access.token : readFile(access.tokenFile, 'utf8').then((line) => line.trim()),
  ]);
  if (access.skipsVerify) options.rejectUnauthorized = false;
  if (access.tlsServerName !== undefined) options.servername = access.tlsServerName;
  if (ca !== undefined) options.ca = ca;
  if (cert !== undefined) options.cert = cert;
  if (key !== undefined) options.key = key;
  if (access.basic !== undefined) options.auth = access.basic;
  options.agent = false;
  options.headers = {
    ...(access.impersonates === undefined ? {} : { 'impersonate-user': access.impersonates }),
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  };
}

async function bytes(of: FileOrData | undefined): Promise<Buffer | undefined> {
  if (of?.file !== undefined) return await readFile(of.file);
  return of?.data === undefined ? undefined : Buffer.from(of.data, 'base64');
}
