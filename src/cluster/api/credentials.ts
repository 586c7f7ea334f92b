/** Address and credentials of the API server. client-node, which is large, is loaded only for what `plain-credentials.ts` does not know. */
import { open, readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { causeOf } from '../../base/cause.ts';
import { type OneFile, readOneFile } from '../documents/files.ts';
import { fieldsOf } from './api-status.ts';
import type { Credentials } from './client.ts';
import { applyPlain, type PlainAccess, plainAccess, podAccess } from './plain-credentials.ts';

/** The name in deploy/base in place of the control plane's address; no host has it (RFC 2606). */
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

/** `file`: the object in the kubeconfig. Throws KubeconfigUnusable. */
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
  // Without TLS there is nothing to verify.
  const skipsVerify = server.startsWith('http:') || access.skipsVerify;
  return { server, apply: (options) => applyPlain({ ...access, skipsVerify, tokenFile }, options) };
}

/** undefined: client-node must read the kubeconfig. */
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

/** Credentials of other kinds, which client-node knows. Throws KubeconfigUnusable. */
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
  // Without TLS there is nothing to verify; client-node needs to know that.
  const skipTLSVerify = server.startsWith('http:') || cluster.skipTLSVerify === true;
  config.clusters = config.clusters.map((entry) =>
    entry.name === cluster.name ? { ...entry, server, skipTLSVerify } : entry,
  );
  const tokenFile = tokenFileOf(file, { kubeconfig, user: config.getCurrentUser()?.name });
  return {
    server,
    async apply(options) {
      await config.applyToHTTPSOptions(options);
      // client-node keeps an agent with the certificate of the first request, and an agent's options override a request's.
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

// A token in a file, such as one that a kubelet renews (projected volumes of ServiceAccounts).

/** Bytes of a token that are read. */
const MAX_TOKEN = 64 * 1024;

/** The token of a file, read anew; undefined where there is no such file. Rejects with a clause. */
export async function tokenIn(file: string): Promise<string | undefined> {
  let text: string;
  try {
    await using handle = await open(file);
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(MAX_TOKEN), 0, MAX_TOKEN, 0);
    text = buffer.toString('latin1', 0, bytesRead).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new Error(`the token in ${file} cannot be read: ${(error as Error).message}`);
  }
  if (!/^[\w.~+/-]+=*$/.test(text)) throw new Error(`the file ${file} does not contain a token`);
  return text;
}
