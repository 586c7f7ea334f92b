/**
 * What must hold at the end, when faults are over and time has passed: every frontend does as the newest objects say, only the objects of
 * the configured mode are left in the kernel, `verify` finds nothing, and health says so.
 */

import { FAMILIES, type Family } from '../../../src/base/address.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import type { FamilyView } from '../../../src/proxy/modes/view.ts';
import { expected } from '../../inspect/explain/oracle.ts';
import { combinations, newest } from './expectations.ts';
import { becomeOf, fatesText, type KernelViews, type ModeViews, viewsIn, withoutShares } from './kernel-views.ts';
import { packetsTo, type Sender, type SentPacket } from './packets.ts';
import type { FrontendVersions, Versions } from './versions.ts';

export interface ServedAnswer {
  readonly status: number;
  readonly body: string;
}

/** Asks the agent over its ports. */
export type AskAgent = (server: 'health' | 'metrics', path: string) => Promise<ServedAnswer>;

export interface LivenessInput {
  readonly views: KernelViews;
  readonly versions: Versions;
  readonly senders: readonly Sender[];
  readonly families?: readonly Family[];
  /** undefined: no agent is asked. */
  readonly ask: AskAgent | undefined;
}

/** Sentences, one for each thing that is not as it should be. */
export async function liveness({ ask, ...input }: LivenessInput): Promise<string[]> {
  const { families = FAMILIES, versions } = input;
  const mode = versions.nodes.at(-1)?.mode ?? 'iptables';
  const problems: string[] = [];
  for (const family of families) {
    const views = input.views(family);
    problems.push(...leftovers(views, mode).map((text) => `${family}: ${text}`));
    problems.push(...wrongFates(views, family, input));
  }
  if (ask !== undefined) problems.push(...(await answersOf(ask)));
  return problems;
}

function wrongFates(views: ModeViews, family: Family, { versions, senders }: LivenessOfKernel): string[] {
  const local = versions.localAddresses(family);
  const inFamily = viewsIn(views);
  const problems: string[] = [];
  for (const frontend of versions.frontends) {
    if (frontend.at.family !== family) continue;
    for (const sent of packetsTo(frontend.at, senders, local)) {
      const facts = { localAddresses: local, remembered: new Set<string>() };
      const { fates, unknown } = becomeOf(inFamily, sent.packet, facts);
      const isGrowing = frontend.owners.at(-1)?.service.slowStart !== undefined;
      const shown = isGrowing ? withoutShares : (text: string) => text;
      const [is, wanted] = [shown(fatesText(fates)), shown(wantedNow(sent, frontend, versions))];
      if (!isAsWanted(is, wanted, versions)) problems.push(`${sent.name} should be ${wanted}, and is ${is}`);
      problems.push(...unknown);
    }
  }
  return problems;
}

type LivenessOfKernel = Omit<LivenessInput, 'ask'>;

/** By the newest of all versions. */
function wantedNow(sent: SentPacket, frontend: FrontendVersions, versions: Versions): string {
  const [now] = combinations(frontend, newest(frontend, versions), versions) ?? [];
  if (now === undefined) return 'untouched';
  const { family } = frontend.at;
  const fates = expected(sent.packet, {
    services: {
      ports: now.port === undefined ? [] : [now.port],
      frontend: ({ address }) => ((address === undefined) === sent.isNodePort ? now.port : undefined),
      roleOf: (address) => versions.roleOf(address),
    },
    mode: now.state.settings(now.state.mode, family),
    localAddresses: versions.localAddresses(family),
    remembers: () => false,
  });
  return fatesText(fates);
}

/** A Service of IPVS mode that was deleted is refused instead of left alone while its connections last (docs/ipvs.md). */
function isAsWanted(is: string, wanted: string, { nodes }: Versions): boolean {
  return is === wanted || (nodes.at(-1)?.mode === 'ipvs' && wanted === 'untouched' && is === 'rejected');
}

/** Chains that one mode alone has. */
const OWN = {
  iptables: ['filter', 'KUBE-EXTERNAL-SERVICES'],
  ipvs: ['filter', 'KUBE-IPVS-FILTER'],
  either: ['nat', 'KUBE-SERVICES'],
} as const;

/** Objects of modes that are not configured. */
export function leftovers({ nftables, iptables, ipvs }: ModeViews, mode: ModeName): string[] {
  const problems: string[] = [];
  const rules = ipvs ?? iptables;
  if (mode !== 'nftables' && nftables !== undefined) problems.push('the table of nftables mode is left');
  if (mode !== 'iptables' && hasChain(rules, OWN.iptables)) problems.push('chains of iptables mode are left');
  if (mode !== 'ipvs' && hasChain(rules, OWN.ipvs)) problems.push('chains of IPVS mode are left');
  if (mode === 'nftables' && hasChain(rules, OWN.either)) problems.push('chains of iptables or IPVS mode are left');
  if (mode !== 'ipvs' && ipvs !== undefined) problems.push('objects of IPVS mode are left');
  return problems;
}

function hasChain(view: FamilyView | undefined, [table, chain]: readonly ['filter' | 'nat', string]): boolean {
  return view?.rules?.chain(table, chain) !== undefined;
}

async function answersOf(ask: AskAgent): Promise<string[]> {
  const problems: string[] = [];
  for (const path of ['/healthz', '/readyz', '/livez']) {
    const { status, body } = await ask('health', path);
    if (status !== 200) problems.push(`${path} answers ${status}: ${body}`);
  }
  const { status, body } = await ask('metrics', '/verify');
  if (status !== 200) return [...problems, `/verify answers ${status}: ${body}`];
  const { differences } = JSON.parse(body) as { readonly differences?: readonly { readonly because: string }[] };
  if (differences === undefined) return [...problems, `/verify answers ${body}`];
  for (const one of differences) {
    if (one.because !== 'waits for connections to end') problems.push(`verify: ${JSON.stringify(one)}`);
  }
  return problems;
}
