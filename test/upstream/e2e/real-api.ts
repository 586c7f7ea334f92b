/** A real kube-apiserver as the API server of the cluster. */
import type { ApiObject } from '../../helpers/cluster/api/api-store.ts';
import { COLLECTIONS } from '../../helpers/cluster/api/api-store.ts';
import { RealApiServer, type RealServer } from '../../helpers/cluster/api/real-api-server.ts';
import type { ClusterApi } from './api.ts';

/** Whose status is written apart from the rest. */
const WITH_STATUS = ['Node', 'Pod', 'Service'];

/** Path of a collection. */
function pathOf(kind: string, namespace: string | undefined): string {
  const collection = COLLECTIONS.find((one) => one.kind === kind);
  if (collection === undefined) throw new Error(`no kind ${kind} is known`);
  const { apiVersion, resource, isNamespaced } = collection;
  const group = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  return isNamespaced ? `${group}/namespaces/${namespace}/${resource}` : `${group}/${resource}`;
}

function objectPath(kind: string, key: string): string {
  const [namespace, name] = key.includes('/') ? key.split('/') : [undefined, key];
  return `${pathOf(kind, namespace)}/${name}`;
}

export class RealApi implements ClusterApi {
  readonly #server: RealApiServer;
  readonly #namespaces = new Map<string, Promise<void>>();

  static async start(programs: RealServer): Promise<RealApi> {
    return new RealApi(await RealApiServer.start(programs));
  }

  private constructor(server: RealApiServer) {
    this.#server = server;
  }

  get port(): number {
    return this.#server.port;
  }

  kubeconfig(): Promise<string> {
    return Promise.resolve(this.#server.kubeconfig);
  }

  async create(object: ApiObject): Promise<ApiObject> {
    const { namespace, name } = object.metadata;
    if (namespace !== undefined) await this.#makeNamespace(namespace);
    await this.#server.client.write('POST', pathOf(object.kind, namespace), object);
    const key = namespace === undefined ? name : `${namespace}/${name}`;
    if (object.status === undefined || !WITH_STATUS.includes(object.kind)) return await this.#read(object.kind, key);
    return await this.update(object.kind, key, (created) => {
      created.status = object.status;
    });
  }

  async update(kind: string, key: string, change: (object: ApiObject) => void): Promise<ApiObject> {
    const before = await this.#read(kind, key);
    const after = structuredClone(before);
    change(after);
    const { client } = this.#server;
    const hasChanged = (part: (object: ApiObject) => unknown) =>
      JSON.stringify(part(before)) !== JSON.stringify(part(after));
    if (hasChanged(({ status: _, ...rest }) => rest)) await client.write('PUT', objectPath(kind, key), after);
    if (WITH_STATUS.includes(kind) && hasChanged(({ status }) => status)) {
      const now = await this.#read(kind, key);
      await client.write('PUT', `${objectPath(kind, key)}/status`, { ...now, status: after.status });
    }
    return await this.#read(kind, key);
  }

  async remove(kind: string, key: string): Promise<void> {
    await this.#delete(kind, key, 0);
  }

  async terminate(key: string): Promise<void> {
    await this.#delete('Pod', key, 100);
  }

  async list(kind: string, namespace: string): Promise<ApiObject[]> {
    const { items } = (await this.#server.client.read(pathOf(kind, namespace))) as { items: ApiObject[] };
    return items.map((item) => ({ ...item, kind }));
  }

  stop(): Promise<void> {
    return this.#server.stop();
  }

  async #delete(kind: string, key: string, gracePeriodSeconds: number): Promise<void> {
    const path = `${objectPath(kind, key)}?gracePeriodSeconds=${gracePeriodSeconds}`;
    await this.#server.client.write('DELETE', path).catch((error: Error) => {
      if (!error.message.includes(': 404 ')) throw error;
    });
  }

  async #read(kind: string, key: string): Promise<ApiObject> {
    return (await this.#server.client.read(objectPath(kind, key))) as ApiObject;
  }

  #makeNamespace(name: string): Promise<void> {
    const object = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
    const made = this.#namespaces.get(name) ?? this.#server.client.write('POST', '/api/v1/namespaces', object);
    this.#namespaces.set(name, made);
    return made;
  }
}
