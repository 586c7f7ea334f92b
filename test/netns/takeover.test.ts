/** Takeovers from kube-proxy in the modes that need no IPVS in the kernel. */
import { MODES } from '../recordings/kube-proxy/scene.ts';
import { takeoverCases } from '../recordings/kube-proxy/takeover-cases.ts';

for (const former of MODES) for (const mode of MODES) takeoverCases(former, mode);
