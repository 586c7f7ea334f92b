/** Asks an API server for one Pod: agents do not follow Pods. */

import type { SourcePod } from '../../proxy/model/events.ts';
import { ApiError, apiClient } from '../api/client.ts';
import { type ClusterConfig, loadCredentials } from '../api/credentials.ts';
import { decodePod } from '../api/decode/producing.ts';
import type { Connect } from '../api/transport.ts';

/** undefined: there is no such Pod. Throws ApiError and KubeconfigUnusable. */
export async function lookUpPod(
  key: string,
  cluster: ClusterConfig & { readonly userAgent: string; readonly connect?: Connect },
  signal: AbortSignal,
): Promise<SourcePod | undefined> {
  const [namespace = '', name = ''] = key.split('/').map(encodeURIComponent);
  const { userAgent, connect } = cluster;
  const client = apiClient(await loadCredentials(cluster), { userAgent, connect });
  try {
    const pod = await client.get(`/api/v1/namespaces/${namespace}/pods/${name}`, {}, signal);
    return decodePod(pod, key, { isHandWritten: false }).value;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  } finally {
    client.close();
  }
}
