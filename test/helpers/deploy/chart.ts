/** deploy/chart as Helm renders it, for tests. */
import assert from 'node:assert/strict';
import { parse } from 'yaml';
import { configFromFlags } from '../../../src/config/from-flags.ts';
import { flagsFromText, objectsOf } from '../cluster/documents/documents.ts';
import { findHelm, helm, NO_HELM, type ObjectOf } from './deployed.ts';

export const HELM = await findHelm();
/** Of a test that needs Helm. */
export const options = HELM === undefined ? NO_HELM : {};

export const BASE = ['apiServer=https://control-plane.example:6443'];
export const set = (values: readonly string[]) => values.flatMap((value) => ['--set', value]);

/** The objects with these values, each as `name=value`. */
export async function rendered(values: readonly string[] = BASE, ...args: readonly string[]): Promise<ObjectOf[]> {
  const { exitCode, stdout, stderr } = await helm(HELM ?? assert.fail(), 'template', [...set(values), ...args]);
  assert.equal(exitCode, 0, stderr);
  return objectsOf(stdout) as ObjectOf[];
}

/** What Helm says when it refuses these values. */
export async function refused(...values: readonly string[]): Promise<string> {
  const { exitCode, stderr } = await helm(HELM ?? assert.fail(), 'template', set(values));
  assert.notEqual(exitCode, 0, `${values.join(' ')} is accepted`);
  return stderr;
}

export const named = ({ kind, metadata }: ObjectOf) => `${kind} ${metadata.namespace ?? ''}/${metadata.name}`;
export const find = (objects: readonly ObjectOf[], kind: string) =>
  objects.find((object) => object.kind === kind) ?? assert.fail(`no ${kind}`);

/** What a test looks at; every other field is compared as a whole. */
export interface Pod {
  readonly metadata: {
    readonly labels: Record<string, string>;
    readonly annotations?: Record<string, string>;
  };
  readonly spec: Readonly<Record<string, unknown>> & {
    readonly containers: readonly Container[];
    readonly initContainers: readonly Container[];
    readonly volumes: readonly unknown[];
  };
}

export interface Container {
  readonly image: string;
  readonly imagePullPolicy: string;
  readonly args: readonly string[];
  readonly resources: object;
  readonly securityContext: { readonly capabilities: { readonly add: readonly string[] } };
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
}

export interface Workload {
  readonly replicas?: number;
  readonly minReadySeconds?: number;
  readonly updateStrategy?: unknown;
  readonly template: Pod;
}

export const workload = (objects: readonly ObjectOf[], kind: string) => find(objects, kind).spec as Workload;
export const agentOf = (objects: readonly ObjectOf[]) => workload(objects, 'DaemonSet').template;
export const bothOf = (objects: readonly ObjectOf[]) => {
  const { containers, initContainers } = agentOf(objects).spec;
  return [...initContainers, ...containers];
};
export const settingsOf = (objects: readonly ObjectOf[]) =>
  agentOf(objects).metadata.annotations?.['checksum/settings'];

/** Without the labels and the annotation that only a chart has, and with the files of ConfigMaps as what they say. */
export function inEffect(objects: readonly ObjectOf[]): Map<string, unknown> {
  return new Map(
    [...structuredClone(objects)]
      .sort((a, b) => (named(a) < named(b) ? -1 : 1))
      .map((object) => {
        const { labels = {}, ...metadata } = object.metadata;
        const { 'helm.sh/chart': _chart, 'app.kubernetes.io/managed-by': _by, ...others } = labels;
        if (object.kind === 'DaemonSet')
          delete (object.spec as Workload).template.metadata.annotations?.['checksum/settings'];
        const pod = (object.spec as Partial<Workload> | undefined)?.template;
        if (Object.keys(pod?.metadata.annotations ?? {}).length === 0)
          Reflect.deleteProperty(pod?.metadata ?? {}, 'annotations');
        const data = Object.entries(object.data ?? {}).map(([name, text]) => [name, parse(String(text))]);
        return [named(object), { ...object, metadata: { ...metadata, labels: others }, data }];
      }),
  );
}

/** The configuration that the agents read. */
export function configOf(objects: readonly ObjectOf[]) {
  const data = find(objects, 'ConfigMap').data as Readonly<Record<string, string>>;
  const { flags, lenient, idle } = flagsFromText(data['config.conf'] ?? '', {});
  assert.deepEqual([lenient, idle], [[], []]);
  return configFromFlags(flags);
}
