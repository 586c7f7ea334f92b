/** What a request asks the API server to answer in. */
import { PROTOBUF } from './protobuf/envelope.ts';

export const JSON_TYPE = 'application/json';

/**
 * Nobody reads `metadata.managedFields`, which can be half of an object: an API server with KEP-5958 (the feature gate
 * ManagedFieldsOptOut, alpha in Kubernetes 1.38) leaves them out. Others ignore a parameter that they do not know.
 */
const DROP = 'drop=metadata.managedFields';

/** Behind the others, for a server that takes no type with a parameter that it does not know. */
const PLAIN_JSON = `${JSON_TYPE};q=0.5`;

/** The header `Accept`. kube-apiserver takes the first type that it has. */
export function acceptOf({ hasProtobuf, isWatch }: { hasProtobuf: boolean; isWatch: boolean }): string {
  const protobuf = `${PROTOBUF}${isWatch ? ';stream=watch' : ''};${DROP}`;
  return [...(hasProtobuf ? [protobuf] : []), `${JSON_TYPE};${DROP}`, PLAIN_JSON].join(', ');
}
