/**
 * Finds and merges the kubeconfig of a user as kubectl does: the file of --kubeconfig, the files of KUBECONFIG, or ~/.kube/config (https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/).
 */
import { access } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { causeOf } from '../../base/cause.ts';
import { readOneFile } from '../documents/files.ts';
import { type Credentials, fieldsOf } from './client.ts';
import { credentialsOf, KubeconfigUnusable, kubeconfigIn } from './credentials.ts';

/** The flags of kubectl with these names. */
export interface UserFlags {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  readonly cluster?: string | undefined;
  readonly user?: string | undefined;
  /** The user to impersonate. */
  readonly as?: string | undefined;
}

type KubeconfigFields = Readonly<Record<string, unknown>>;

const LISTS = ['clusters', 'users', 'contexts'] as const;
/** Fields of a cluster or user that name a file; a relative path begins in the folder of the kubeconfig. */
const FILE_FIELDS = ['certificate-authority', 'client-certificate', 'client-key', 'tokenFile'];

/** Throws KubeconfigUnusable. */
export async function userCredentials(flags: UserFlags, env: NodeJS.ProcessEnv): Promise<Credentials> {
  const paths = pathsOf(flags, env);
  const files: KubeconfigFields[] = [];
  const read: string[] = [];
  for (const path of paths) {
    if (flags.kubeconfig === undefined && !(await exists(path))) continue;
    files.push(await readAbsolute(path));
    read.push(path);
  }
  if (files.length > 0) {
    const [path = ''] = read;
    const chosen = withFlags(merged(files), flags, read.join(':'));
    return await credentialsOf(chosen, { kubeconfig: path, master: undefined });
  }
  if (env.KUBERNETES_SERVICE_HOST !== undefined)
    return await credentialsOf(undefined, { kubeconfig: undefined, master: undefined });
  throw new KubeconfigUnusable(
    `no kubeconfig: ${paths.join(' and ')} ${paths.length === 1 ? 'does' : 'do'} not exist; name a file with --kubeconfig`,
  );
}

function pathsOf({ kubeconfig }: UserFlags, { KUBECONFIG = '', HOME = '/' }: NodeJS.ProcessEnv): readonly string[] {
  if (kubeconfig !== undefined) return [kubeconfig];
  const named = [...new Set(KUBECONFIG.split(':').filter((path) => path !== ''))];
  return named.length > 0 ? named : [join(HOME, '.kube/config')];
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false;
      throw new KubeconfigUnusable(`--kubeconfig ${path}: ${causeOf(error)}`);
    },
  );
}

/** The content of a kubeconfig, with absolute paths. */
async function readAbsolute(path: string): Promise<KubeconfigFields> {
  const file = await readOneFile(path).catch((error: unknown) => {
    throw new KubeconfigUnusable(`--kubeconfig ${path}: ${causeOf(error)}`);
  });
  const folder = dirname(resolve(path));
  const config = fieldsOf(kubeconfigIn(file, path));
  return {
    ...config,
    clusters: entriesOf(config.clusters, (entry) => ({ ...entry, cluster: absolute(entry.cluster, folder) })),
    users: entriesOf(config.users, (entry) => ({ ...entry, user: absoluteUser(entry.user, folder) })),
    contexts: entriesOf(config.contexts, (entry) => entry),
  };
}

/** A value that is no list counts as empty; a missing entry is reported when it is needed. */
function entriesOf(list: unknown, change: (entry: KubeconfigFields) => KubeconfigFields): readonly KubeconfigFields[] {
  return Array.isArray(list) ? list.map((entry) => change(fieldsOf(entry))) : [];
}

function absolute(object: unknown, folder: string): KubeconfigFields {
  const fields = fieldsOf(object);
  const changed = FILE_FIELDS.flatMap((field) => {
    const name = fields[field];
    return typeof name === 'string' && name !== '' ? [[field, resolve(folder, name)] as const] : [];
  });
  return { ...fields, ...Object.fromEntries(changed) };
}

/** A relative command with a slash begins in the folder of the kubeconfig as well. */
function absoluteUser(object: unknown, folder: string): KubeconfigFields {
  const user = absolute(object, folder);
  const exec = fieldsOf(user.exec);
  const { command } = exec;
  if (typeof command !== 'string' || !command.includes('/') || isAbsolute(command)) return user;
  return { ...user, exec: { ...exec, command: resolve(folder, command) } };
}

/** Of two entries with one name, and of two current contexts, the first counts. */
function merged(files: readonly KubeconfigFields[]): KubeconfigFields {
  const lists = LISTS.map((list) => {
    const entries = files.flatMap((file) => file[list] as readonly KubeconfigFields[]);
    const first = new Map<unknown, KubeconfigFields>();
    for (const entry of entries) if (!first.has(entry.name)) first.set(entry.name, entry);
    return [list, [...first.values()]] as const;
  });
  const current = files.map((file) => file['current-context']).find((name) => typeof name === 'string' && name !== '');
  return { apiVersion: 'v1', kind: 'Config', ...Object.fromEntries(lists), 'current-context': current ?? '' };
}

/** Applies the flags to the kubeconfig. Throws KubeconfigUnusable. */
function withFlags(config: KubeconfigFields, flags: UserFlags, path: string): KubeconfigFields {
  const contexts = config.contexts as readonly KubeconfigFields[];
  const name = flags.context ?? config['current-context'];
  const context = contexts.find((entry) => entry.name === name);
  if (flags.context !== undefined && context === undefined)
    throw missing('context', flags.context, { entries: contexts, path });
  const own = fieldsOf(context?.context);
  const chosen = { cluster: flags.cluster ?? own.cluster, user: flags.user ?? own.user };
  for (const kind of ['cluster', 'user'] as const) {
    const entries = config[`${kind}s`] as readonly KubeconfigFields[];
    const isThere = entries.some((entry) => entry.name === chosen[kind]);
    if (flags[kind] !== undefined && !isThere) throw missing(kind, flags[kind], { entries, path });
  }
  if (flags.context === undefined && flags.cluster === undefined && flags.user === undefined && flags.as === undefined)
    return config;
  const others = contexts.filter((entry) => entry !== context);
  const users = config.users as readonly KubeconfigFields[];
  return {
    ...config,
    'current-context': name === '' ? 'flags' : name,
    contexts: [{ name: name === '' ? 'flags' : name, context: { ...own, ...chosen } }, ...others],
    users: flags.as === undefined ? users : users.map((entry) => impersonating(entry, chosen.user, flags.as)),
  };
}

function impersonating(entry: KubeconfigFields, user: unknown, as: string | undefined): KubeconfigFields {
  return entry.name === user ? { ...entry, user: { ...fieldsOf(entry.user), as } } : entry;
}

interface KubeconfigEntries {
  readonly entries: readonly KubeconfigFields[];
  readonly path: string;
}

function missing(
  kind: 'context' | 'cluster' | 'user',
  name: string,
  { entries, path }: KubeconfigEntries,
): KubeconfigUnusable {
  const names = entries.map((entry) => String(entry.name));
  const has = names.length === 0 ? `it has no ${kind}` : `it has ${names.slice(0, 20).join(', ')}`;
  return new KubeconfigUnusable(`--${kind} ${name}: the kubeconfig ${path} has no such ${kind}; ${has}`);
}
