/** Facts of the Node, the cluster and this machine that rules depend on, as they were when the rules were made and as they are now. */

import type { Family } from '../base/address.ts';
import { sameData } from '../base/equal.ts';
import { firstOf } from '../inspect/wire/format.ts';
import type { IptablesSettings } from '../proxy/modes/iptables/static-chains.ts';
import type { IpvsSettings } from '../proxy/modes/ipvs/static-chains.ts';
import type { FamilySettings, LocalDetector } from '../proxy/modes/netfilter/local-traffic.ts';
import type { NftablesSettings } from '../proxy/modes/nftables/chains.ts';
import { MAX_NAMED } from './log-lines.ts';

export interface ChangedFact {
  readonly family: Family;
  /** A setting of the family, or `tools`: whether the tools of iptables can be used. */
  readonly fact: string;
  readonly from: unknown;
  readonly to: unknown;
}

type Setting = keyof IptablesSettings | keyof IpvsSettings | keyof NftablesSettings;

/** The facts that can change while a configuration stays, in words. */
const NAMES: Readonly<Partial<Record<Setting | 'tools', string>>> = {
  nodeAddresses: 'addresses of the Node',
  localDetector: 'source of traffic from local pods',
  nodePortAddresses: 'addresses that take node ports',
  nodePortCidrs: 'ranges that take node ports',
  localhostNodePorts: 'node ports on loopback',
  dropInvalid: 'drop of packets that conntrack calls invalid',
  serviceCidrs: 'ranges of cluster IPs',
  tools: 'tools of iptables',
};

/** The settings of a family that are others now. */
export function changedFacts(before: FamilySettings, now: FamilySettings): ChangedFact[] {
  const from = { ...before } as Readonly<Record<string, unknown>>;
  const to = { ...now } as Readonly<Record<string, unknown>>;
  const names = [...new Set([...Object.keys(from), ...Object.keys(to)])];
  return names
    .filter((fact) => !sameData(from[fact], to[fact]))
    .map((fact) => ({ family: before.family, fact, from: from[fact], to: to[fact] }));
}

/** `IPv4 addresses of the Node: from 192.0.2.1 to 192.0.2.2` */
export function changedFactText({ family, fact, from, to }: ChangedFact): string {
  const name = NAMES[fact as Setting] ?? fact;
  return `${family} ${name}: from ${valueText(from)} to ${valueText(to)}`;
}

function valueText(value: unknown): string {
  if (value === undefined) return 'unknown';
  if (typeof value === 'boolean') return value ? 'on' : 'off';
  if (Array.isArray(value)) return value.length === 0 ? 'none' : firstOf(value.map(String), MAX_NAMED);
  if (isDetector(value)) return detectorText(value);
  return String(value);
}

function isDetector(value: unknown): value is LocalDetector {
  return typeof value === 'object' && value !== null && 'kind' in value;
}

function detectorText(detector: LocalDetector): string {
  if (detector.kind === 'cidr') return detector.cidr;
  return detector.kind === 'interface' ? `the interface ${detector.name}` : 'unknown';
}
