/** Stories that a real kube-proxy 1.36 ends otherwise, by mode and by the id of the story, each with its reason. */
import type { ModeName } from '../../src/proxy/model/modes.ts';
import { STORIES } from '../conformance/stories/index.ts';

type Reasons = Readonly<Record<string, string>>;

/** An order that kube-proxy does not define decides: these may end as in slicewire, too. */
export const BY_CHANCE: ReadonlySet<string> = new Set(['external-ip-of-other-cluster-ip', 'endpoint-in-two-slices']);

/** The reasons that the stories themselves name (`Story.kubeProxy`). */
function asTold(...ids: readonly string[]): Reasons {
  return Object.fromEntries(
    ids.map((id) => {
      const said = STORIES.find((story) => story.id === id)?.kubeProxy;
      if (said === undefined) throw new Error(`the story ${id} names no reason`);
      return [id, `kube-proxy ${said}`];
    }),
  );
}

/** The same reason for several stories. */
function because(reason: string, ...ids: readonly string[]): Reasons {
  return Object.fromEntries(ids.map((id) => [id, `kube-proxy ${reason}`]));
}

const EXTERNAL = ['external-ip', 'lb'];
const ANY = ['node-port', ...EXTERNAL];

/** What kube-proxy reads of the objects is the same in every mode. */
const EVERY_MODE: Reasons = {
  ...asTold(...BY_CHANCE, 'ranges-of-other-family', 'ranges-malformed'),
  ...asTold('service-with-headless-label', 'slices-of-others-passed-over'),
  ...because(
    'counts an empty hint as that for a zone without a name (docs/semantics.md 3.5)',
    ...['zone-hint-empty', 'zone-hint-empty-node-without-zone'],
  ),
};

const OWN_NODE_ALONE = {
  ...asTold(...ANY.map((id) => `${id}-local-remote-pod-to-itself`), 'local-one-bridge-for-all-nodes'),
  ...because(
    'masquerades endpoints of its own node alone where they reach themselves (docs/semantics.md 7.7)',
    ...['endpoint-on-unknown-node', 'local-masquerade-all-remote-pod'],
  ),
};

export const DIFFERENCES: Readonly<Record<ModeName, Reasons>> = {
  iptables: {
    ...EVERY_MODE,
    ...asTold(...EXTERNAL.flatMap((id) => [`${id}-cluster-without-endpoints`, `${id}-local-without-endpoints`])),
    ...asTold('ranges-for-external-ip-too', 'server-on-node-port', 'server-on-loopback'),
  },
  nftables: { ...EVERY_MODE, ...OWN_NODE_ALONE },
  ipvs: {
    ...EVERY_MODE,
    ...OWN_NODE_ALONE,
    ...because(
      'serves an address of policy Local from the endpoints of its node, whoever asks (docs/switching.md)',
      'node-port-local-draining-here',
    ),
    ...because(
      'refuses connections to a cluster IP of policy Local without an endpoint on the node (docs/switching.md)',
      ...['local-only-draining-elsewhere', 'matrix'],
    ),
    ...because('accepts no marked packets in INPUT (docs/ipvs.md)', 'node-ports-closed-firewall'),
  },
};
