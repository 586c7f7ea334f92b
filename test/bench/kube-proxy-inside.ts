/**
 * Reads the metrics of the kube-proxy in this namespace. It asks rarely, since each answer costs kube-proxy processor time:
 * when a sync ended is in the metric itself.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { obey } from './inside.ts';
import type { KubeProxyAnswer, KubeProxyCommand } from './kube-proxy-protocol.ts';

const URL = 'http://127.0.0.1:10249/metrics';
/** Milliseconds between two questions: less than the least time between two syncs. */
const BETWEEN = 150;
/** Nodes of the lab have both. */
const FAMILIES = 2;

/** Values by their labels, as they are written; none where nobody listens yet. */
async function read(signal?: AbortSignal): Promise<(name: string) => readonly number[]> {
  const text = await fetch(URL, { signal: signal ?? null }).then(
    async (response) => await response.text(),
    () => '',
  );
  const lines = text.split('\n');
  return (name) =>
    lines
      .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
      .map((line) => Number(line.slice(line.lastIndexOf(' ') + 1)));
}

const sum = (values: readonly number[]) => values.reduce((all, one) => all + one, 0);

async function answer(signal?: AbortSignal): Promise<KubeProxyAnswer> {
  const values = await read(signal);
  const ends = values('kubeproxy_sync_proxy_rules_last_timestamp_seconds');
  const families = values('kubeproxy_sync_proxy_rules_duration_seconds_count');
  const isSynced = ends.length === FAMILIES && ends.every((end) => end > 0);
  return {
    syncedAt: isSynced ? Math.max(...ends) * 1000 : 0,
    count: sum(families),
    seconds: sum(values('kubeproxy_sync_proxy_rules_duration_seconds_sum')),
  };
}

async function synced(within: number): Promise<KubeProxyAnswer> {
  const late = performance.now() + within;
  // A firewall that lets nothing through answers no question.
  const signal = AbortSignal.timeout(within);
  while (performance.now() < late) {
    const now = await answer(signal);
    if (now.syncedAt > 0) return now;
    await pause(BETWEEN);
  }
  throw new Error(`kube-proxy has not synced within ${(within / 1000).toFixed(0)} s`);
}

obey<KubeProxyCommand, KubeProxyAnswer>(async (command) => {
  switch (command.kind) {
    case 'ready':
      return { syncedAt: 0, count: 0, seconds: 0 };
    case 'synced':
      return await synced(command.within);
    case 'syncs':
      return await answer();
  }
});
