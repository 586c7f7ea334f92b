/** The state that the steps of the demo share. */
import type { ModeName } from '../../proxy/model/modes.ts';
import type { AgentProcess } from '../lab/agent-process.ts';
import type { Lab } from '../lab/lab.ts';

/** Milliseconds in which an agent must sync: the machine may be emulated. */
export const SYNC_TIMEOUT_MS = 60_000;

export interface Scene {
  readonly lab: Lab;
  readonly folder: string;
  readonly mode: ModeName;
  /** Start an agent in a mode; the one before must have been stopped. */
  readonly start: (mode: ModeName) => AgentProcess;
  /** The agent that runs now. */
  agent: AgentProcess;
}

export interface StepResult {
  readonly succeeded: boolean;
  readonly seen: string;
}

export interface DemoStep {
  readonly title: string;
  readonly run: (scene: Scene) => Promise<StepResult>;
}

/** Text, indented below its heading. */
export function indent(text: string): string {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => `    ${line}`)
    .join('\n');
}

// The state of the kernel as administrators see it, in each mode.

interface DemoTexts {
  /** The kernel objects that the mode writes. */
  readonly written: string;
  readonly one: string;
  readonly many: string;
  readonly where: string;
  readonly state: (lab: Lab) => Promise<string>;
}

export const SHOWN: Readonly<Record<ModeName, DemoTexts>> = {
  iptables: {
    written: 'chains, jumps and settings',
    one: 'chain',
    many: 'chains',
    where: 'The rules of the Service web:',
    state: rulesOfWeb,
  },
  ipvs: {
    written: 'servers, sets, chains, jumps and settings',
    one: 'server or set',
    many: 'servers and sets',
    where: 'In the kernel:',
    state: ipvsState,
  },
  nftables: {
    written: 'sets, chains and Services',
    one: 'Service',
    many: 'Services and chains',
    where: 'The Services in the table (nft list table ip slicewire shows all of it):',
    state: mapsOfServices,
  },
};

export async function ipvsState(lab: Lab): Promise<string> {
  const servers = await lab.exec('node', 'ipvsadm', '-Ln');
  const device = await lab.exec('node', 'ip', 'addr', 'show', 'kube-ipvs0');
  return `# ipvsadm -Ln\n${servers}\n# ip addr show kube-ipvs0\n${device}`;
}

async function rulesOfWeb(lab: Lab): Promise<string> {
  const rules = (await lab.exec('node', 'iptables-save', '-t', 'nat')).split('\n');
  const ofWeb = /^-A (KUBE-(SERVICES|NODEPORTS) .*default\/web|KUBE-(EXT|SVC)-)/;
  return rules.filter((rule) => ofWeb.test(rule)).join('\n');
}

/** Shown by nft, which the agent does not need, and which may be missing. */
async function mapsOfServices(lab: Lab): Promise<string> {
  const shown: string[] = [];
  for (const map of ['services', 'node-ports', 'backends']) {
    try {
      shown.push(await lab.exec('node', 'nft', 'list', 'map', 'ip', 'slicewire', map));
    } catch {
      return '(install nft to see the maps)';
    }
  }
  return shown.join('\n');
}
