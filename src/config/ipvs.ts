/** Settings of IPVS mode. */
import type { IpvsConfig } from './config.ts';
import { isOn, type Reader, readCidrs, readTimeout } from './readers.ts';

/** A scheduler goes to the kernel as it is: letters and digits, of at most 15 (linux/ip_vs.h, IP_VS_SCHEDNAME_MAXLEN). */
const DEFAULT_SCHEDULER = 'rr';
const SCHEDULER = /^[a-z0-9]{1,15}$/;

/** What the section of another mode says is not checked (reference 1.4); what is wrong with it counts for nothing. */
export function readIdleIpvs(read: Reader): IpvsConfig {
  let isRight = true;
  const found = readIpvs({ ...read, fault: () => (isRight = false) });
  return isRight ? found : readIpvs({ ...read, text: () => undefined, fault: () => undefined });
}

export function readIpvs(read: Reader): IpvsConfig {
  const scheduler = read.text('ipvs-scheduler') || DEFAULT_SCHEDULER;
  if (!SCHEDULER.test(scheduler)) read.fault('ipvs-scheduler', 'must be the name of a scheduler, such as rr or lc');
  const timeout = (flag: string) => Math.floor(readTimeout(read, flag, '0s') / 1000);
  return {
    scheduler,
    excludeCidrs: readCidrs(read, 'ipvs-exclude-cidrs'),
    strictArp: isOn(read, 'ipvs-strict-arp', false),
    tcpTimeout: timeout('ipvs-tcp-timeout'),
    tcpFinTimeout: timeout('ipvs-tcpfin-timeout'),
    udpTimeout: timeout('ipvs-udp-timeout'),
  };
}
