/** What a virtual server of IPVS does with the first packet of a connection. Pure. */
import { endpointText } from '../../base/address.ts';
import type { ServerView } from '../../proxy/modes/view.ts';
import { destinationKey, destinationText, serverText } from '../../proxy/modes/virtual-servers/objects.ts';
import { type State, type Step, stepped, translated } from './fates.ts';
import type { Surroundings } from './matching.ts';

/**
 * The packet on its way to each destination that the server may choose; none where it refuses. Destinations without a weight get no new
 * connections, and one that remembers the client gets them all. Shares follow the weights; schedulers that look at connections may
 * divide otherwise for a while (Documentation/networking/ipvs-sysctl.rst, ipvsadm(8)).
 */
export function candidates(view: ServerView, state: State, { facts, asked }: Surroundings): State[] {
  const { server, owner } = view;
  const live = view.destinations.filter(({ weight }) => weight > 0);
  const keys = server.timeout > 0 ? live.map((one) => destinationKey(server, one)) : [];
  for (const key of keys) asked.destinations.add(key);
  const known = live.filter((_, i) => facts.remembered.has(keys[i] ?? ''));
  const chosen = known.length > 0 ? known.slice(0, 1) : live;
  const all = chosen.reduce((sum, { weight }) => sum + weight, 0);
  return chosen.map((destination) => {
    const share = destination.weight / all;
    const to = endpointText(destination.address, destination.port);
    const step: Step = {
      table: 'ipvs',
      chain: serverText({ server, owner }),
      rule: destinationText({ server, destination, owner }),
      effect: { kind: 'translate', to },
      share,
      owner,
    };
    const sent = translated(state, to, destination.address, destination.port);
    return stepped({ ...sent, probability: state.probability * share }, step);
  });
}

/** The step of a server without a destination that has a weight (ip_vs_core.c, ip_vs_leave). */
export function refusal({ server, owner }: ServerView): Step {
  const rule = 'no destination with a weight';
  return { table: 'ipvs', chain: serverText({ server, owner }), rule, effect: { kind: 'reject' }, share: 1, owner };
}
