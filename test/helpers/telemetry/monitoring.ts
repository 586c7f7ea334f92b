/** The alerts of deploy/monitoring, read as data. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { objectsOf } from '../cluster/documents/documents.ts';

export const PARTS = ['agent', 'controller', 'fleet'] as const;
export type Part = (typeof PARTS)[number];

const alert = z.strictObject({
  alert: z.string(),
  expr: z.string(),
  for: z.string(),
  labels: z.strictObject({ severity: z.enum(['warning', 'critical']) }),
  annotations: z.strictObject({ summary: z.string(), description: z.string(), runbook_url: z.url() }),
});
export type Alert = z.infer<typeof alert>;

/** Fields of monitoring.coreos.com/v1 that the files use; the operator refuses others. */
const rules = z.strictObject({
  apiVersion: z.literal('monitoring.coreos.com/v1'),
  kind: z.literal('PrometheusRule'),
  metadata: z.strictObject({
    name: z.string(),
    namespace: z.literal('kube-system'),
    labels: z.record(z.string(), z.string()),
  }),
  spec: z.strictObject({
    groups: z.array(z.strictObject({ name: z.string(), rules: z.array(alert) })).min(1),
  }),
});

export function fileOf(path: string): string {
  return readFileSync(fileURLToPath(new URL(`../../../${path}`, import.meta.url)), 'utf8');
}

/** The groups of a PrometheusRule, as a file of rules has them. */
export function groupsOf(part: Part): z.infer<typeof rules>['spec']['groups'] {
  const [object] = objectsOf(fileOf(`deploy/monitoring/${part}/rules.yaml`));
  return rules.parse(object).spec.groups;
}

export function alertsOf(part: Part): readonly Alert[] {
  return groupsOf(part).flatMap((group) => group.rules);
}
