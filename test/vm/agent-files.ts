/** The files about the agent itself in IPVS mode: what it writes, takes over and leaves, and a kernel that lacks something. */
export const AGENTS: readonly string[] = ['agent.vm.ts', 'mode.vm.ts', 'switching.vm.ts', 'unusable.vm.ts'];
