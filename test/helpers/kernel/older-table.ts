/**
 * The table in its older form, before `nft` could load its maps from a listing. It is a recording, because today's code writes the newer
 * form. `data/nftables/older-table.json` has the transactions of `olderObjects` for both families, each a batch of nfnetlink without
 * a generation.
 */
import { readFileSync } from 'node:fs';
import { NETLINK_NETFILTER } from '../../../native/nfnetlink.ts';
import { podAddress } from '../../../src/cli/lab/lab.ts';
import { WEB, webObjects } from '../cli/lab/web.ts';
import { service, slice } from '../cluster/objects.ts';
import { transportsIn } from './namespace-sockets.ts';

const RECORDED = new URL('../../data/nftables/older-table.json', import.meta.url);
/** Of a batch. */
const LONGEST = 64 * 1024 * 1024;

/** A Service with session affinity. */
export const STICKY = '10.96.0.11';
/** A load balancer's address under policy Local. */
export const LOCAL_VIP = '192.0.2.80';

export function olderObjects(): object[] {
  const endpoints = [1, 2].map((n) => ({ addresses: [podAddress(n).v4], nodeName: 'node' }));
  const backed = (name: string) =>
    slice({ name: `${name}-1`, service: name, ports: [{ name: '', port: 8080 }], endpoints });
  return [
    ...webObjects([1, 2], { hasOther: false }),
    service({ name: 'sticky', spec: { clusterIP: STICKY, sessionAffinity: 'ClientIP', ports: [{ port: 80 }] } }),
    backed('sticky'),
    service({
      name: 'local',
      spec: {
        type: 'LoadBalancer',
        clusterIP: '10.96.0.12',
        externalTrafficPolicy: 'Local',
        ports: [{ port: 80, nodePort: 30_081 }],
      },
      status: { loadBalancer: { ingress: [{ ip: LOCAL_VIP }] } },
    }),
    backed('local'),
    service({ name: 'gone', spec: { clusterIP: WEB.replace('.10', '.13'), ports: [{ port: 80 }] } }),
  ];
}

/** Its transactions. */
export function olderBatches(): Buffer[] {
  const { batches } = JSON.parse(readFileSync(RECORDED, 'utf8')) as { batches: readonly string[] };
  return batches.map((batch) => Buffer.from(batch, 'base64'));
}

/** Throws when the kernel refuses it. */
export function writeOlderTable(namespace: string): void {
  const transport = transportsIn(namespace)(NETLINK_NETFILTER, LONGEST);
  try {
    for (const batch of olderBatches()) transport.send(batch);
  } finally {
    transport.close();
  }
}
