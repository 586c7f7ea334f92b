/** A kubeconfig, and --master; no text: none is given. */
import type { Row } from './row.ts';

interface Input {
  readonly text?: string;
  readonly kubeconfig?: string;
  readonly master?: string;
}

const cluster = (server: string) => `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: '${server}'}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
`;

export const KUBECONFIGS: readonly Row<Input>[] = [
  {
    name: 'none at all',
    input: {},
    message:
      'no source of objects: this process does not run in a pod; name a folder with --manifests or a cluster with --kubeconfig',
  },
  {
    name: 'one that is not there',
    input: { kubeconfig: '/no/such/kubeconfig' },
    message: '--kubeconfig /no/such/kubeconfig: there is no such file or folder',
  },
  {
    name: 'one that is a folder',
    input: { kubeconfig: '/' },
    message: '--kubeconfig /: it is a folder, not a regular file',
  },
  {
    name: 'one without a current context',
    input: { text: cluster('https://10.0.0.1:6443') },
    message: '--kubeconfig DIR/kubeconfig: current-context is missing',
  },
  {
    name: 'a current context that is not there',
    input: { text: `${cluster('https://10.0.0.1:6443')}current-context: y\n` },
    message:
      '--kubeconfig DIR/kubeconfig: current-context: y: must name a context of this file whose cluster is in this file',
  },
  {
    name: 'a server that is no URL',
    input: { text: `${cluster('10.0.0.1')}current-context: x\n` },
    message:
      '--kubeconfig DIR/kubeconfig: server of the cluster: 10.0.0.1: must be a URL such as https://10.0.0.1:6443',
  },
  {
    name: 'a token file that is no path',
    input: {
      text: `${cluster('https://10.0.0.1:6443')}current-context: x\nusers: [{name: u, user: {tokenFile: 7}}]\n`,
    },
    message: '--kubeconfig DIR/kubeconfig: tokenFile of the user u: 7: must be the path of a file',
  },
  {
    name: 'a master that is no URL',
    input: { master: '10.0.0.1:6443' },
    message: '--master 10.0.0.1:6443: must be a URL such as https://10.0.0.1:6443',
  },
];
