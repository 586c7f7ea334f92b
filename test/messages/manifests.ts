/** What a file of manifests says, one text after another; undefined: it cannot be read. What is said of the last counts. */

import type { Address } from '../../src/base/address.ts';
import type { ListeningSocket } from '../../src/kernel/listeners.ts';
import type { Row } from './row.ts';

/** The machine on which they are read. */
export const NODE: { readonly addresses: readonly string[]; readonly listeners: readonly ListeningSocket[] } = {
  addresses: ['192.0.2.7'],
  listeners: [{ protocol: 'TCP', address: '0.0.0.0' as Address, port: 22 }],
};

const service = (spec: string, metadata = 'name: web') =>
  `apiVersion: v1\nkind: Service\nmetadata: {${metadata}}\nspec: {${spec}}\n`;
const WEB = 'clusterIP: 10.96.0.1, ports: [{port: 80}]';
const pod = (status: string, spec = 'containers: []') =>
  `apiVersion: v1\nkind: Pod\nmetadata: {name: web-1}\nspec: {${spec}}\nstatus: {${status}}\n`;

export const MANIFESTS: readonly Row<readonly (string | undefined)[]>[] = [
  {
    name: 'a file that cannot be read',
    input: [undefined],
    message: 'file web.yaml: cannot be read: permission denied (file set aside)',
  },
  {
    name: 'a file that cannot be read any more',
    input: [service(WEB), undefined],
    message: 'file web.yaml: cannot be read: permission denied; its former objects stay in force (file set aside)',
  },
  {
    name: 'a file that holds nothing any more',
    input: [service(WEB), ''],
    message:
      'file web.yaml: holds no object any more; its former objects stay in force until the file is removed (file set aside)',
  },
  {
    name: 'a document that is no object',
    input: ['7\n'],
    message: 'file web.yaml: line 1, column 1: a document must be a Kubernetes object (object set aside)',
  },
  {
    name: 'an object without a kind',
    input: ['apiVersion: v1\nmetadata: {name: web}\n'],
    message: 'file web.yaml: object 1: kind: must be the name of a kind, such as Service (object set aside)',
  },
  {
    name: 'a kind that is a number',
    input: ['kind: 7\n'],
    message: 'file web.yaml: object 1: kind: 7: must be the name of a kind, such as Service (object set aside)',
  },
  {
    name: 'another version',
    input: [service(WEB).replace('v1', 'v2')],
    message: 'file web.yaml: object 1: apiVersion: v2: must be v1 for a Service (object set aside)',
  },
  {
    name: 'another version of a slice',
    input: ['apiVersion: v1\nkind: EndpointSlice\nmetadata: {name: web}\n'],
    message:
      'file web.yaml: object 1: apiVersion: v1: must be discovery.k8s.io/v1 for an EndpointSlice (object set aside)',
  },
  {
    name: 'no version',
    input: ['kind: Endpoints\nmetadata: {name: web}\n'],
    message: 'file web.yaml: object 1: apiVersion: must be v1 for Endpoints (object set aside)',
  },
  {
    name: 'no name',
    input: [service(WEB, '')],
    message: 'file web.yaml: object 1: metadata.name: is missing; every object needs a name (object set aside)',
  },
  {
    name: 'no name of a slice',
    input: ['apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n'],
    message: 'file web.yaml: object 1: metadata.name: is missing; every object needs a name (object set aside)',
  },
  {
    name: 'a name that is none',
    input: [service(WEB, 'name: Web_1')],
    message:
      'file web.yaml: object 1: metadata.name: Web_1: must be a name: lower-case letters, digits, - and ., with a letter or digit at both ends, at most 253 characters (object set aside)',
  },
  {
    name: 'a name that is a number',
    input: [service(WEB, 'name: 7')],
    message:
      'file web.yaml: object 1: metadata.name: 7: must be a name: lower-case letters, digits, - and ., with a letter or digit at both ends, at most 253 characters; write it in quotes (object set aside)',
  },
  {
    name: 'a namespace that is none',
    input: [service(WEB, 'name: inj3, namespace: "a/b"')],
    message:
      'file web.yaml: object 1: metadata.namespace: a/b: must be a name: lower-case letters, digits, - and ., with a letter or digit at both ends, at most 253 characters (object set aside)',
  },
  {
    name: 'an object twice',
    input: [`${service(WEB)}---\n${service(WEB)}`],
    message:
      'file web.yaml: object 2: Service default/web: is defined twice in this file; the first definition is used (object set aside)',
  },
  {
    name: 'a cluster IP of loopback',
    input: [service('clusterIP: 127.0.0.1, ports: [{port: 80}]')],
    message:
      'Service default/web: spec.clusterIP: 127.0.0.1: must not be a loopback address (127.0.0.0/8, ::1); give an address that other machines can reach (object set aside)',
  },
  {
    name: 'an external IP that is link-local',
    input: [service(`${WEB}, externalIPs: [169.254.169.254]`)],
    message:
      'Service default/web: spec.externalIPs[0]: 169.254.169.254: must not be a link-local address (169.254.0.0/16, fe80::/10); give an address that other machines can reach (part left out)',
  },
  {
    name: 'an external IP that is the broadcast address',
    input: [service(`${WEB}, externalIPs: [255.255.255.255]`)],
    message:
      'Service default/web: spec.externalIPs[0]: 255.255.255.255: must not be the broadcast address; give an address that other machines can reach (part left out)',
  },
  {
    name: 'an external IP of this node whose port is in use',
    input: [service('clusterIP: 10.96.0.1, externalIPs: [192.0.2.7], ports: [{port: 22}]')],
    message:
      'Service default/web: spec.externalIPs: 192.0.2.7: is an address of this node, where TCP port 22 is in use; choose another address or port, or allow it with --allow-node-address-ports (part left out)',
  },
  {
    name: 'a cluster IP of this node whose port is in use',
    input: [service('clusterIP: 192.0.2.7, ports: [{port: 22}]')],
    message:
      'Service default/web: spec.clusterIPs: 192.0.2.7: is an address of this node, where TCP port 22 is in use; choose another address or port, or allow it with --allow-node-address-ports (object set aside)',
  },
  {
    name: 'a node port outside the range',
    input: [service('type: NodePort, clusterIP: 10.96.0.1, ports: [{port: 80, nodePort: 22}]')],
    message:
      'Service default/web: spec.ports[0].nodePort: 22: is outside --service-node-port-range, which is 30000-32767; choose a port in the range, or widen the range (part left out)',
  },
  {
    name: 'a port in quotes',
    input: [service('clusterIP: 10.96.0.1, ports: [{port: "80"}]')],
    message:
      'Service default/web: spec.ports[0].port: 80: must be a number, not a string; write it without quotes (object set aside)',
  },
  {
    name: 'a Pod without an address',
    input: [pod('')],
    message:
      'Pod default/web-1: status.podIP: is missing; a Pod without an address is not an endpoint (no effect here)',
  },
  {
    name: 'a Pod with an address that is multicast',
    input: [pod('podIP: 224.0.0.1')],
    message:
      'Pod default/web-1: status.podIP: 224.0.0.1: must not be a multicast address (224.0.0.0/4, ff00::/8); give an address that other machines can reach (part left out)',
  },
  {
    name: 'a Pod with an address that is none',
    input: [pod('podIP: web-1')],
    message: 'Pod default/web-1: status.podIP: web-1: must be an IP address (part left out)',
  },
  {
    name: 'containers that are no list',
    input: [pod('podIP: 10.0.0.1', 'containers: {}')],
    message: 'Pod default/web-1: spec.containers: {}: must be a list, not a map (object set aside)',
  },
  {
    name: 'a port of a container that is none',
    input: [pod('podIP: 10.0.0.1', 'containers: [{ports: [{containerPort: 0}]}]')],
    message:
      'Pod default/web-1: spec.containers[0].ports[0].containerPort: 0: must be a whole number from 1 to 65535 (part left out)',
  },
  {
    name: 'an endpoint that is the unspecified address',
    input: ['apiVersion: v1\nkind: Endpoints\nmetadata: {name: web}\nsubsets: [{addresses: [{ip: 0.0.0.0}]}]\n'],
    message:
      'Endpoints default/web: subsets[0].addresses[0].ip: 0.0.0.0: must not be the unspecified address; give an address that other machines can reach (part left out)',
  },
  {
    name: 'an address of Endpoints that is none',
    input: [
      'apiVersion: v1\nkind: Endpoints\nmetadata: {name: web}\nsubsets: [{addresses: [{ip: web}], ports: [{port: 0}]}]\n',
    ],
    message:
      'Endpoints default/web: subsets[0].ports[0].port: 0: must be a whole number from 1 to 65535 (part left out)\nEndpoints default/web: subsets[0].addresses[0].ip: web: must be an IP address (part left out)',
  },
];
