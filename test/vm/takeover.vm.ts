/** Takeovers from and by IPVS mode. */
import { takeoverCases } from '../recordings/kube-proxy/takeover-cases.ts';

takeoverCases('ipvs', 'ipvs', ['back']);
takeoverCases('ipvs', 'nftables', ['killed']);
takeoverCases('iptables', 'ipvs', ['killed']);
