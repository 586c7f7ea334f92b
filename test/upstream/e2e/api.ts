/** The API server of the cluster: what a test writes goes here, and the controller and the agents follow it. */
import type { ApiReviews } from '../../helpers/cluster/api/api-reviews.ts';
import { ApiServer } from '../../helpers/cluster/api/api-server.ts';
import type { ApiObject } from '../../helpers/cluster/api/api-store.ts';
import { serviceCidr } from '../../helpers/cluster/objects.ts';
import { Allocation, type Service } from './allocation.ts';

export interface ClusterApi {
  /** The port of the loopback that it listens on. */
  readonly port: number;
  /** Tokens and who may ask what; a real API server has its own. */
  readonly reviews?: ApiReviews;
  kubeconfig(): Promise<string>;
  /** Returns the object as it is stored. */
  create(object: ApiObject): Promise<ApiObject>;
  /** Change an object as it is now, its status included. */
  update(kind: string, key: string, change: (object: ApiObject) => void): Promise<ApiObject>;
  /** Nothing happens when there is no such object. */
  remove(kind: string, key: string): Promise<void>;
  list(kind: string, namespace: string): Promise<ApiObject[]>;
  /** Begin to delete a Pod with a grace period: the object stays. */
  terminate(key: string): Promise<void>;
  stop(): Promise<void>;
}

/** The API server for tests, with the allocation of addresses and ports that a real one does. */
export class TestApi implements ClusterApi {
  readonly #server: ApiServer;
  readonly #allocation = new Allocation();

  static async start(): Promise<TestApi> {
    const api = new TestApi(await ApiServer.start());
    api.#server.put(serviceCidr('10.96.0.0/12', 'fd00:96::/108'));
    return api;
  }

  private constructor(server: ApiServer) {
    this.#server = server;
  }

  get port(): number {
    return Number(new URL(this.#server.url).port);
  }

  get reviews(): ApiReviews {
    return this.#server.reviews;
  }

  kubeconfig(): Promise<string> {
    return this.#server.kubeconfig();
  }

  create(object: ApiObject): Promise<ApiObject> {
    return Promise.resolve(this.#put(object));
  }

  async update(kind: string, key: string, change: (object: ApiObject) => void): Promise<ApiObject> {
    const before = this.#find(kind, key);
    if (before === undefined) throw new Error(`${kind} ${key}: there is none`);
    const after = structuredClone(before);
    change(after);
    return this.#put(after, before);
  }

  remove(kind: string, key: string): Promise<void> {
    const before = this.#find(kind, key);
    if (kind === 'Service' && before !== undefined) this.#allocation.release(before as Service);
    this.#server.delete(kind, key);
    return Promise.resolve();
  }

  list(kind: string, namespace: string): Promise<ApiObject[]> {
    return Promise.resolve(this.#server.objects(kind).filter(({ metadata }) => metadata.namespace === namespace));
  }

  async terminate(key: string): Promise<void> {
    const deletion = { deletionTimestamp: '2026-11-21T00:01:40Z', deletionGracePeriodSeconds: 100 };
    await this.update('Pod', key, ({ metadata }) => void Object.assign(metadata, deletion));
  }

  stop(): Promise<void> {
    return this.#server.stop();
  }

  #put(object: ApiObject, before?: ApiObject): ApiObject {
    const admitted =
      object.kind === 'Service' ? this.#allocation.admit(object as Service, before as Service | undefined) : object;
    this.#server.put(admitted);
    const { namespace, name } = object.metadata;
    return this.#find(object.kind, namespace === undefined ? name : `${namespace}/${name}`) as ApiObject;
  }

  #find(kind: string, key: string): ApiObject | undefined {
    return this.#server
      .objects(kind)
      .find(({ metadata: { namespace, name } }) => (namespace === undefined ? name : `${namespace}/${name}`) === key);
  }
}
