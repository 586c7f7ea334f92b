/** Settings of IPVS mode. */
import type { IpvsConfig } from './config.ts';
import { isOn, type Reader, readCidrs, readTimeout } from './readers.ts';

/** A scheduler's name goes to the kernel unchanged: at most 15 letters and digits (linux/ip_vs.h, IP_VS_SCHEDNAME_MAXLEN). */
const DEFAULT_SCHEDULER = 'rr';
const SCHEDULER = /^[a-z0-9]{1,15}$/;

/** In other modes the settings of IPVS are not checked, as in kube-proxy; invalid ones are replaced by the defaults. */
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
