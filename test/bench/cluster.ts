/** A made-up cluster: N Services of 5 endpoints, cluster IPs spread over 10.96.0.0/12, pods over 100 nodes, one file a Service. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fromBinary } from '../../src/model/address.ts';
import { service, slice } from '../helpers/objects.ts';

export const ENDPOINTS = 5;
const NODES = 100;
/** Steps over the Service range that meet every address once: odd, so prime to 2^20. */
const SPREAD = 611_953;

export function clusterIP(n: number): string {
  return fromBinary((0x0a600000 + ((n * SPREAD) % 2 ** 20)).toString(2).padStart(32, '0'));
}

function podIP(n: number): string {
  return `10.${128 + (Math.floor(n / 65_536) % 64)}.${Math.floor(n / 256) % 256}.${n % 256}`;
}

/** Endpoints of the n-th Service; `turn` replaces the last one. */
export function endpointsOf(n: number, turn = 0): { addresses: string[]; nodeName: string }[] {
  return Array.from({ length: ENDPOINTS }, (_, i) => {
    const pod = n * ENDPOINTS + i + (i === ENDPOINTS - 1 ? turn * 500_000 : 0);
    return { addresses: [podIP(pod)], nodeName: `node-${pod % NODES}` };
  });
}

export function objectsOf(n: number, turn = 0): object[] {
  const ports = [{ name: 'http', port: 8080 }];
  return [
    service({ name: `svc-${n}`, spec: { clusterIP: clusterIP(n), ports: [{ name: 'http', port: 80 }] } }),
    slice({ name: `svc-${n}-a`, service: `svc-${n}`, addressType: 'IPv4', ports, endpoints: endpointsOf(n, turn) }),
  ];
}

export async function writeService(folder: string, n: number, turn = 0): Promise<void> {
  const list = { apiVersion: 'v1', kind: 'List', items: objectsOf(n, turn) };
  await writeFile(join(folder, `svc-${n}.json`), JSON.stringify(list));
}

export async function writeCluster(folder: string, services: number): Promise<void> {
  for (let n = 0; n < services; n += 100) {
    await Promise.all(Array.from({ length: Math.min(100, services - n) }, (_, i) => writeService(folder, n + i)));
  }
}
