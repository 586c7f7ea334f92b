/** The agents of a cluster: their Pods, by node. */
import * as z from 'zod';
import { type ApiClient, ApiError } from '../../cluster/api/client.ts';
import { NoAnswer } from '../../inspect/wire/envelope.ts';

export interface AgentPod {
  readonly name: string;
  readonly namespace: string;
  /** "" for a Pod without a node. */
  readonly node: string;
  /** The reason why it cannot be asked; undefined when it runs. */
  readonly problem: string | undefined;
  /** It is being deleted. */
  readonly isLeaving: boolean;
}

export interface WhereAgents {
  readonly namespace: string;
  /** Label selector. */
  readonly selector: string;
}

const PAGE = 500;

const text = z.string().optional();
const container = z.object({
  state: z
    .object({
      running: z.unknown().optional(),
      waiting: z.object({ reason: text, message: text }).optional(),
      terminated: z.object({ reason: text, exitCode: z.number().optional() }).optional(),
    })
    .optional(),
});
const requirement = z.object({ key: text, values: z.array(z.string()).optional() });
const affinity = z.object({
  nodeAffinity: z.object({
    requiredDuringSchedulingIgnoredDuringExecution: z.object({
      nodeSelectorTerms: z.array(z.object({ matchFields: z.array(requirement).optional() })),
    }),
  }),
});
/** The fields of a Pod that are read (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/). */
const podSchema = z.object({
  metadata: z.object({ name: z.string(), namespace: z.string(), creationTimestamp: text, deletionTimestamp: text }),
  spec: z.object({
    nodeName: text,
    hostNetwork: z.boolean().optional(),
    affinity: affinity.optional().catch(undefined),
  }),
  status: z
    .object({
      phase: text,
      podIP: text,
      podIPs: z.array(z.object({ ip: text })).optional(),
      reason: text,
      message: text,
      conditions: z.array(z.object({ type: z.string(), status: z.string(), message: text })).optional(),
      containerStatuses: z.array(container).optional(),
    })
    .optional(),
});
const listSchema = z.object({ metadata: z.object({ continue: text }), items: z.array(podSchema) });

type Pod = z.infer<typeof podSchema>;

/** One Pod for each node, sorted by node. A Pod that runs is preferred, and of several the youngest. Throws NoAnswer. */
export async function agentPods(
  client: ApiClient,
  { namespace, selector }: WhereAgents,
  signal: AbortSignal,
): Promise<AgentPod[]> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`;
  const pods: Pod[] = [];
  let token: string | undefined;
  do {
    const query = { labelSelector: selector, limit: String(PAGE), continue: token };
    const page = listSchema.safeParse(await get(client, path, { query, signal }));
    if (!page.success) throw new NoAnswer(`${client.server} does not answer with a list of Pods at ${path}`);
    pods.push(...page.data.items);
    token = page.data.metadata.continue || undefined;
  } while (token !== undefined);
  const age = ({ metadata }: Pod) => metadata.creationTimestamp ?? '';
  const youngestFirst = pods.toSorted((a, b) => (age(a) < age(b) ? 1 : -1)).map(agentOf);
  const byNode = Map.groupBy(youngestFirst, ({ node, name }) => (node === '' ? ` ${name}` : node));
  const chosen = [...byNode.values()].flatMap((of) => of.toSorted((a, b) => rank(a) - rank(b))[0] ?? []);
  return chosen.sort((a, b) => (nodeTitle(a) < nodeTitle(b) ? -1 : 1));
}

function rank({ problem, isLeaving }: AgentPod): number {
  return (problem === undefined ? 0 : 2) + (isLeaving ? 1 : 0);
}

/** The name of the node, or that of the Pod when the node is unknown. */
export function nodeTitle({ node, name }: AgentPod): string {
  return node === '' ? `Pod ${name}` : node;
}

export interface PlacedPod {
  readonly node: string;
  /** Its own addresses; none for a Pod in the network of its node. */
  readonly addresses: readonly string[];
}

/** The node and the addresses of a Pod. Throws NoAnswer. */
export async function placeOfPod(
  client: ApiClient,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<PlacedPod> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}`;
  const read = podSchema.safeParse(await get(client, path, { query: {}, signal }));
  if (!read.success) throw new NoAnswer(`${client.server} does not answer with a Pod at ${path}`);
  const { spec, status } = read.data;
  const { podIP, podIPs = [{ ip: podIP }] } = status ?? {};
  const addresses = podIPs.flatMap(({ ip }) => (ip ? [ip] : []));
  if (!spec.nodeName || addresses.length === 0)
    throw new NoAnswer(`Pod ${namespace}/${name} has no node or no address yet: ask again when it runs`);
  return { node: spec.nodeName, addresses: spec.hostNetwork === true ? [] : addresses };
}

async function get(
  client: ApiClient,
  path: string,
  { query, signal }: { readonly query: Readonly<Record<string, string | undefined>>; readonly signal: AbortSignal },
): Promise<unknown> {
  try {
    return await client.get(path, query, signal);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new NoAnswer(`${error.message}${HINTS[error.status] ?? ''}`);
  }
}

/** Advice by the status of a refusal. */
const HINTS: Readonly<Record<number, string>> = {
  401: ': the API server does not know the user of the kubeconfig; --context, --user or a new login may help',
  403: '; docs/kubectl.md has a Role',
};

function agentOf(pod: Pod): AgentPod {
  const { name, namespace } = pod.metadata;
  const isLeaving = pod.metadata.deletionTimestamp !== undefined;
  return { name, namespace, node: pod.spec.nodeName || affineNode(pod), problem: problemOf(pod), isLeaving };
}

/** The DaemonSet controller names the node of a Pod before the scheduler does, by an affinity. */
function affineNode({ spec }: Pod): string {
  const terms = spec.affinity?.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms ?? [];
  const fields = terms.flatMap(({ matchFields = [] }) => matchFields);
  return fields.find(({ key }) => key === 'metadata.name')?.values?.[0] ?? '';
}

function problemOf({ metadata, status }: Pod): string | undefined {
  const { phase = 'Unknown', reason, message, conditions = [], containerStatuses = [] } = status ?? {};
  const states = containerStatuses.map(({ state }) => state);
  const waiting = states.find((state) => state?.waiting !== undefined)?.waiting;
  const unscheduled = conditions.find(({ type, status: is }) => type === 'PodScheduled' && is === 'False')?.message;
  const why = [waiting?.reason ?? reason, waiting?.message ?? message ?? unscheduled].filter((part) => part);
  const because = why.length === 0 ? '' : ` (${why.join(': ')})`;
  const of = `Pod ${metadata.namespace}/${metadata.name}`;
  if (phase !== 'Running') return `${of} is ${phase}${because}`;
  if (states.length > 0 && !states.some((state) => state?.running !== undefined))
    return `the container of ${of} does not run${because}`;
  return undefined;
}
