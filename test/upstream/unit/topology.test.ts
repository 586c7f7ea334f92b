/** The endpoints of a node by policy and hints, as kube-proxy's test of CategorizeEndpoints has them; rows have their names, in topology-rows.ts. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../../src/base/address.ts';
import type { PortEndpoint } from '../../../src/proxy/model/endpoints.ts';
import { selectEndpoints } from '../../../src/proxy/model/selection.ts';
import { CATEGORIES, type EndpointWords } from './topology-rows.ts';

const NODE = 'node-of-the-proxy';
function endpoint(words: EndpointWords, node: string): PortEndpoint {
  const [number, ...are] = words.split(' ');
  const address = `10.0.0.${number}` as Address;
  const hints = (kind: string) => are.filter((word) => word.startsWith(kind));
  const isDraining = are.includes('draining');
  return {
    endpoint: {
      address,
      ready: are.includes('ready'),
      serving: are.includes('ready') || isDraining,
      terminating: isDraining,
      nodeName: are.includes('here') ? node : 'another',
      zoneHints: hints('zone-'),
      nodeHints: hints('node-'),
    },
    port: 80,
    text: `${address}:80`,
  };
}

describe('CategorizeEndpoints', () => {
  for (const [title, row] of Object.entries(CATEGORIES)) {
    it(title, () => {
      const { zone = '', node = NODE, internal = 'Cluster', external = 'Cluster', isExternal = false } = row;
      const { cluster, local, hasAny } = selectEndpoints({
        ...{ endpoints: row.endpoints.map((words) => endpoint(words, node)), nodeName: node, zone },
        ...{ internalPolicy: internal, externalPolicy: external, externallyAccessible: isExternal },
      });
      const numbers = (list: readonly PortEndpoint[]) =>
        list.map(({ endpoint: { address } }) => Number(address.slice(7)));
      const isAny = (row.cluster ?? row.local) !== undefined || row.hasOthersAlone === true;
      assert.deepEqual([numbers(cluster), numbers(local), hasAny], [row.cluster ?? [], row.local ?? [], isAny]);
    });
  }
});
