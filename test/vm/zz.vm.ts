import { takeoverCases } from '../recordings/kube-proxy/takeover-cases.ts';

takeoverCases('ipvs', 'nftables', ['killed']);
