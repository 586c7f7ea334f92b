/** The objects of a simulated cluster whose slices the controller makes: Services with selectors, Pods and Nodes, which change at random. */

import type { Random } from '../../helpers/base/random.ts';
import { service } from '../../helpers/cluster/objects.ts';
import type { Action } from './actions.ts';
import { NODE, nodeAction } from './objects.ts';

const SERVICES = 4;
const MAX_PODS = 5;

interface SimPod {
  readonly name: string;
  readonly index: number;
  readonly host: number;
  readonly node: string;
  readonly isReady: boolean;
}

/** Makes actions that change Services and Pods. */
export class SimPods {
  readonly #random: Random;
  readonly #pods = new Map<string, SimPod>();
  /** Each Pod has an address that no other one ever had, as long as they last. */
  #hosts = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  /** The objects at the beginning. */
  first(): Action[] {
    const actions: Action[] = [nodeAction(NODE, 'z1'), nodeAction('elsewhere', 'z2')];
    for (let index = 0; index < SERVICES; index++) {
      actions.push(this.#service(index));
      for (let i = this.#random.between(1, 3); i > 0; i--) actions.push(this.#newPod(index));
    }
    return actions;
  }

  /** One change. */
  next(): Action[] {
    const random = this.#random;
    const index = random.below(SERVICES);
    const mine = [...this.#pods.values()].filter((pod) => pod.index === index);
    const dice = random.next();
    if (dice < 0.1) return [this.#service(index)];
    if (dice < 0.4 && mine.length < MAX_PODS) return [this.#newPod(index)];
    if (mine.length === 0) return [this.#newPod(index)];
    const pod = random.pick(mine);
    if (dice < 0.7) return [this.#put({ ...pod, isReady: !pod.isReady })];
    this.#pods.delete(pod.name);
    return [{ kind: 'delete', of: 'pods', name: pod.name }];
  }

  #newPod(index: number): Action {
    this.#hosts += 1;
    const node = this.#random.chance(0.4) ? NODE : 'elsewhere';
    return this.#put({
      name: `s${index}-${this.#hosts}`,
      index,
      host: this.#hosts,
      node,
      isReady: this.#random.chance(0.8),
    });
  }

  #put(pod: SimPod): Action {
    this.#pods.set(pod.name, pod);
    const { name, index, host, node, isReady } = pod;
    const ips = [`10.244.${index}.${1 + (host % 250)}`, `fd00:244:${index}::${(1 + host).toString(16)}`];
    return {
      kind: 'put',
      of: 'pods',
      object: {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name, namespace: 'default', labels: { app: `s${index}` } },
        spec: { nodeName: node, containers: [{ name: 'web', ports: [{ name: 'http', containerPort: 8080 }] }] },
        status: {
          phase: 'Running',
          podIP: ips[0],
          podIPs: ips.map((ip) => ({ ip })),
          conditions: [{ type: 'Ready', status: isReady ? 'True' : 'False' }],
        },
      },
    };
  }

  #service(index: number): Action {
    const ips = [`10.96.0.${10 + index}`, `fd00:96::${10 + index}`];
    const spec = {
      type: 'ClusterIP',
      selector: { app: `s${index}` },
      clusterIP: ips[0],
      clusterIPs: ips,
      ipFamilies: ['IPv4', 'IPv6'],
      ipFamilyPolicy: 'RequireDualStack',
      ports: [{ name: 'http', port: 80 + this.#random.below(2), protocol: 'TCP', targetPort: 8080 }],
    };
    return { kind: 'put', of: 'services', object: service({ name: `s${index}`, spec }) };
  }
}
