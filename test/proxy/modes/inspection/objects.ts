/** A few Services that lead to objects of every kind, and the views of a mode as plain values to compare. */
import assert from 'node:assert/strict';
import type { FamilyView } from '../../../../src/proxy/modes/view.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import type { Rig } from '../../../helpers/proxy/rig.ts';

export const WEB = '10.96.0.20';

export function put(rig: Rig): void {
  const spec = { clusterIP: WEB, clusterIPs: [WEB], ports: [{ port: 80, nodePort: 30080 }], type: 'NodePort' };
  rig.put(
    service({ name: 'web', namespace: 'shop', spec }),
    slice({ name: 'web-1', namespace: 'shop', service: 'web', endpoints: ['10.244.1.11', '10.244.1.12'] }),
    service({
      name: 'sticky',
      spec: { clusterIP: '10.96.0.30', sessionAffinity: 'ClientIP', ports: [{ port: 80 }] },
    }),
    slice({ name: 'sticky-1', service: 'sticky', endpoints: ['10.244.1.13'] }),
    service({ name: 'none', spec: { clusterIP: '10.96.0.40', ports: [{ port: 80 }] } }),
  );
}

export async function synced(rig: Rig): Promise<Rig> {
  const { outcome, failed } = await rig.sync();
  assert.equal(outcome, 'complete', JSON.stringify(failed));
  return rig;
}

/** The parts of a view that have these names. */
export interface Names {
  readonly chains?: readonly (readonly ['nat' | 'filter' | 'mangle', string])[];
  readonly tableChains?: readonly string[];
  readonly sets?: readonly string[];
}

/** A view as plain values. */
export function plain({ family, rules, table }: FamilyView, { chains = [], tableChains = [], sets = [] }: Names) {
  return {
    family,
    rules: chains.map(([of, name]) => [name, rules?.chain(of, name)?.map(({ text }) => text)]),
    chains: tableChains.map((name) => [
      name,
      table?.chain(name)?.map(({ text, expressions }) => ({ text, expressions })),
    ]),
    elements: sets.map((name) => [
      name,
      [...(table?.elements(name) ?? [])].map((one) => ({ ...one })).sort((a, b) => (a.key < b.key ? -1 : 1)),
    ]),
  };
}
