/** The floor of `producers.ts`: writes one slice at each event of a Pod, and looks at nothing. The argument is the API server's URL. */
import { apiClient } from '../../src/cluster/api/client.ts';

const server = process.argv[2] ?? '';
const signal = new AbortController().signal;
const client = apiClient(
  {
    server,
    async apply(options) {
      options.agent = false;
    },
  },
  { userAgent: 'floor' },
);
const path = '/apis/discovery.k8s.io/v1/namespaces/team-2/endpointslices';
const list = (await client.get(path, {}, signal)) as {
  items: { metadata: { name: string } }[];
  metadata: { resourceVersion: string };
};
const { name } = list.items[0]?.metadata ?? { name: '' };
const query = { watch: '1', resourceVersion: list.metadata.resourceVersion };
for await (const _ of client.watch('/api/v1/pods', query, signal)) {
  const slice = {
    ...list.items[0],
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name, namespace: 'team-2' },
  };
  await client.write({ method: 'PUT', path: `${path}/${name}`, body: slice }, signal);
}
