/** The settings of one family that IPVS mode depends on. */
import type { FamilySettings } from '../netfilter/settings.ts';
import type { ServersSettings } from '../virtual-servers/settings.ts';

export interface IpvsSettings extends FamilySettings, ServersSettings {
  /** Name of the IPVS scheduler in the kernel, for example `rr`. */
  readonly scheduler: string;
}
