/** Takeovers from and by IPVS mode. */
import { takeoverCases } from '../recordings/kube-proxy/takeover-cases.ts';

takeoverCases('ipvs', 'ipvs', ['confirmed', 'back']);
takeoverCases('ipvs', 'nftables', ['confirmed', 'killed']);
takeoverCases('ipvs', 'iptables', ['back']);
takeoverCases('iptables', 'ipvs', ['killed']);
takeoverCases('nftables', 'ipvs', ['confirmed']);
