/**
 * Address and credentials of the API server. Certificates, tokens and passwords of a kubeconfig, and the token of a pod, are read here.
 * client-node loads a megabyte of code, and remains for kubeconfigs with an exec or auth-provider credential or a proxy, and for those
 * that this file cannot read. Files are read for each request, as client-node does, so that renewed certificates and tokens are used.
 */
import { open, readFile } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import { isIPv6 } from 'node:net';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { causeOf } from '../../base/cause.ts';
import { type OneFile, readOneFile } from '../documents/files.ts';
import { type Credentials, fieldsOf } from './client.ts';

/** deploy/base has this name in place of the control plane's address; no host has it (RFC 2606). */
const PLACEHOLDER = 'control-plane.example';

/** The kubeconfig cannot be used; the program stops at its start. */
export class KubeconfigUnusable extends Error {
  readonly code = 'KUBECONFIG_UNUSABLE';
}

export interface ClusterConfig {
  readonly kubeconfig: string | undefined;
  /** URL of the API server; overrides the kubeconfig, as in kube-proxy. */
  readonly master: string | undefined;
}

/** Throws KubeconfigUnusable. */
export async function loadCredentials(cluster: ClusterConfig): Promise<Credentials> {
  const { kubeconfig } = cluster;
  return await credentialsOf(kubeconfig === undefined ? undefined : await readKubeconfig(kubeconfig), cluster);
}

/** `file`: the content of the kubeconfig. Throws KubeconfigUnusable. */
export async function credentialsOf(
  file: object | undefined,
  { kubeconfig, master }: ClusterConfig,
): Promise<Credentials> {
  const inCluster = kubeconfig === undefined && master === undefined;
  if (inCluster && process.env.KUBERNETES_SERVICE_HOST === undefined) {
    throw new KubeconfigUnusable(
      'no source of objects: this process does not run in a pod; name a folder with --manifests or a cluster with --kubeconfig',
    );
  }
  const access = inCluster ? podAccess(process.env) : accessOf(file, { kubeconfig, master });
  if (access === undefined) return await throughClientNode(file ?? {}, { kubeconfig: kubeconfig ?? '', master });
  const server = serverUrl(master ?? access.server, kubeconfig);
  const tokenFile =
    kubeconfig === undefined || file === undefined
      ? access.tokenFile
      : tokenFileOf(file, { kubeconfig, user: currentUser(file) });
  // Without TLS no certificate is verified.
  const skipsVerify = server.startsWith('http:') || access.skipsVerify;
  return { server, apply: (options) => applyPlain({ ...access, skipsVerify, tokenFile }, options) };
}

/** undefined when client-node must read the kubeconfig. */
function accessOf(file: object | undefined, { kubeconfig, master }: ClusterConfig): PlainAccess | undefined {
  if (kubeconfig === undefined) return { server: master ?? '', skipsVerify: false };
  return plainAccess(file ?? {}, kubeconfig);
}

/** The user of the current context. */
function currentUser(file: object): string | undefined {
  const { contexts, 'current-context': current } = fieldsOf(file);
  const context = Array.isArray(contexts) ? contexts.map(fieldsOf).find(({ name }) => name === current) : undefined;
  const { user } = fieldsOf(context?.context);
  return typeof user === 'string' ? user : undefined;
}

/** Credentials that only client-node supports. Throws KubeconfigUnusable. */
async function throughClientNode(
  file: object,
  { kubeconfig, master }: ClusterConfig & { readonly kubeconfig: string },
): Promise<Credentials> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  try {
    // client-node's own loadFromFile reads files of any size.
    config.loadFromString(JSON.stringify(file));
    config.makePathsAbsolute(dirname(kubeconfig));
  } catch (error) {
    throw new KubeconfigUnusable(`--kubeconfig ${kubeconfig}: cannot be read: ${(error as Error).message}`);
  }
  const cluster = config.getCurrentCluster();
  if (cluster === null)
    throw new KubeconfigUnusable(`--kubeconfig ${kubeconfig}: ${contextProblem(config.currentContext)}`);
  const server = serverUrl(master ?? cluster.server, kubeconfig);
  // Without TLS no certificate is verified, and client-node needs the flag for it.
  const skipTLSVerify = server.startsWith('http:') || cluster.skipTLSVerify === true;
  config.clusters = config.clusters.map((entry) =>
    entry.name === cluster.name ? { ...entry, server, skipTLSVerify } : entry,
  );
  const tokenFile = tokenFileOf(file, { kubeconfig, user: config.getCurrentUser()?.name });
  return {
    server,
    async apply(options) {
      await config.applyToHTTPSOptions(options);
      // client-node keeps an agent with the certificate of the first request, and an agent's options override those of a request.
      if (cluster.proxyUrl === undefined) options.agent = false;
      if (tokenFile !== undefined) {
        const token = (await readFile(tokenFile, 'utf8')).trim();
        options.headers = { ...(options.headers as object), authorization: `Bearer ${token}` };
      }
    },
  };
}

/** client-node ignores `tokenFile`, which kubeadm writes for kube-proxy; it overrides `token`, as in client-go. */
function tokenFileOf(
  file: object | undefined,
  { kubeconfig, user }: { readonly kubeconfig: string; readonly user: string | undefined },
): string | undefined {
  const { users } = fieldsOf(file);
  const own = Array.isArray(users) ? users.map(fieldsOf).find(({ name }) => name === user) : undefined;
  const { tokenFile } = fieldsOf(own?.user);
  if (tokenFile === undefined || tokenFile === null || tokenFile === '') return undefined;
  if (typeof tokenFile === 'string') return resolve(dirname(kubeconfig), tokenFile);
  throw new KubeconfigUnusable(
    `--kubeconfig ${kubeconfig}: tokenFile of the user ${user}: ${JSON.stringify(tokenFile)}: must be the path of a file`,
  );
}

function serverUrl(text: string, kubeconfig: string | undefined): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const where = kubeconfig === undefined ? '--master' : `--kubeconfig ${kubeconfig}: server of the cluster:`;
  if (url?.hostname === PLACEHOLDER) {
    const what = `${PLACEHOLDER} is the placeholder of deploy/base/kubeconfig.conf`;
    throw new KubeconfigUnusable(`${where} ${text}: ${what}; put the address of your control plane in its place`);
  }
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return text;
  throw new KubeconfigUnusable(`${where} ${text}: must be a URL such as https://10.0.0.1:6443`);
}

function contextProblem(context: string | undefined): string {
  return context
    ? `current-context: ${context}: must name a context of this file whose cluster is in this file`
    : 'current-context is missing';
}

/** Throws KubeconfigUnusable. */
async function readKubeconfig(path: string): Promise<object> {
  const { values, problems } = await readOneFile(path).catch((error) => {
    throw new KubeconfigUnusable(`--kubeconfig ${path}: ${causeOf(error)}`);
  });
  return kubeconfigIn({ values, problems }, path);
}

/** The object of a kubeconfig. Throws KubeconfigUnusable. */
export function kubeconfigIn({ values, problems }: Pick<OneFile, 'values' | 'problems'>, path: string): object {
  const [problem] = problems;
  if (problem !== undefined)
    throw new KubeconfigUnusable(
      `--kubeconfig ${path}: line ${problem.line}, column ${problem.column}: ${problem.reason}`,
    );
  const [first, second] = values;
  if (second !== undefined)
    throw new KubeconfigUnusable(
      `--kubeconfig ${path}: line ${second.line}: a second document begins; the file must hold one`,
    );
  if (first === undefined) throw new KubeconfigUnusable(`--kubeconfig ${path}: it is empty`);
  return first.value as object;
}

/** The path of a file, or its content in base64. The file has precedence. */
interface FileOrData {
  readonly file: string | undefined;
  readonly data: string | undefined;
}

/** The current context of a kubeconfig, with absolute paths. */
interface PlainAccess {
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

/** Folder of the service account in a pod (https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/). */
const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';
/** client-node expects an API server without TLS on these ports. */
const PORTS_WITHOUT_TLS = ['80', '8080', '8001'];

export function podAccess(env: NodeJS.ProcessEnv, folder = SERVICE_ACCOUNT): PlainAccess {
  const { KUBERNETES_SERVICE_HOST: host = '', KUBERNETES_SERVICE_PORT: port = '' } = env;
  const scheme = PORTS_WITHOUT_TLS.includes(port) ? 'http' : 'https';
  return {
    server: `${scheme}://${isIPv6(host) ? `[${host}]` : host}:${port}`,
    skipsVerify: false,
    ca: { file: `${folder}/ca.crt`, data: undefined },
    tokenFile: `${folder}/token`,
  };
}

/** `file`: the content of the kubeconfig at `path`. undefined when client-node must read it. */
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

/** The entries of a list by name; undefined when the list or one of its entries is malformed. */
function named(list: unknown, inner: string, needed?: string): Map<unknown, KubeconfigEntry> | undefined {
  if (!Array.isArray(list)) return undefined;
  const entries = new Map<unknown, KubeconfigEntry>();
  for (const one of list) {
    const { name, [inner]: value } = fieldsOf(one);
    const entry = fieldsOf(value);
    if (text(name) === undefined) return undefined;
    if (needed !== undefined && text(entry[needed]) === undefined) return undefined;
    // Of two entries with one name the first counts.
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

/** Values of an unexpected type are left to client-node as well. */
function needsClientNode(cluster: KubeconfigEntry, user: KubeconfigEntry): boolean {
  if (isSet(cluster['proxy-url']) || ['exec', 'auth-provider', 'token-file'].some((field) => isSet(user[field])))
    return true;
  if (isSet(user.username) && !isSet(user.password)) return true;
  const isMistyped = (of: KubeconfigEntry) => (field: string) => isSet(of[field]) && typeof of[field] !== 'string';
  return TEXTS_OF_CLUSTER.some(isMistyped(cluster)) || TEXTS_OF_USER.some(isMistyped(user));
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

const MAX_TOKEN_BYTES = 64 * 1024;

/**
 * Reads the token of a file, such as one that a kubelet renews (projected volumes of ServiceAccounts). undefined when there is no such
 * file. Rejects with a clause.
 */
export async function tokenIn(file: string): Promise<string | undefined> {
  let text: string;
  try {
    await using handle = await open(file);
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(MAX_TOKEN_BYTES), 0, MAX_TOKEN_BYTES, 0);
    text = buffer.toString('latin1', 0, bytesRead).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new Error(`the token in ${file} cannot be read: ${(error as Error).message}`);
  }
  if (!/^[\w.~+/-]+=*$/.test(text)) throw new Error(`the file ${file} does not contain a token`);
  return text;
}
