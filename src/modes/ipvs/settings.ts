/** What one family depends on beside the Services. */
import type { FamilySettings } from '../netfilter/settings.ts';
import type { ServersSettings } from '../virtual-servers/settings.ts';

export interface IpvsSettings extends FamilySettings, ServersSettings {
  /** Name of the kernel's scheduler, such as `rr`. */
  readonly scheduler: string;
}
