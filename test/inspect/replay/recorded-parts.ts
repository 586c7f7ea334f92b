/** Rigs of each mode with a flight recorder, and the settings that a recording of them has. */

import { FAMILIES, parseAddress } from '../../../src/base/address.ts';
import type { Recorder } from '../../../src/inspect/history/recorder.ts';
import { RecordingWriter } from '../../../src/inspect/history/recording-writer.ts';
import type { RecordedParts } from '../../../src/inspect/history/shapes.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { ipvsRig, NODE_ADDRESSES } from '../../helpers/proxy/ipvs-rig.ts';
import { DEFAULT_NODE_SETTINGS, defaultIpvsSettings } from '../../helpers/proxy/ipvs-settings.ts';
import { nftRig, nftSettings } from '../../helpers/proxy/nft-rig.ts';
import { defaultSettings, type GrowingClock, Rig } from '../../helpers/proxy/rig.ts';
import { RecordedRig } from '../history/recorded-rig.ts';

export function partsOf(mode: ModeName): RecordedParts {
  return {
    version: '0.0.0',
    kernel: '6.1.0',
    nodeName: 'node',
    servesExternalIPs: true,
    settings: plain(settingsOf(mode)),
    interfaces: NODE_ADDRESSES.flatMap((text) => parseAddress(text) ?? []),
    config: { mode },
  };
}

/** A copy as JSON makes it. */
function plain(settings: unknown): RecordedParts['settings'] {
  return JSON.parse(JSON.stringify(settings));
}

function settingsOf(mode: ModeName): object {
  if (mode === 'iptables') return { mode, families: FAMILIES.map(defaultSettings) };
  if (mode === 'nftables') return { mode, families: FAMILIES.map(nftSettings) };
  return { mode, families: FAMILIES.map(defaultIpvsSettings), node: DEFAULT_NODE_SETTINGS, kernelSettings: [] };
}

/** A rig in this mode; unused chains of nftables mode stay for a second, as in the agent. */
export function recordedRig(mode: ModeName): RecordedRig {
  return new RecordedRig({ build: (recorder, growing) => rigOf(mode, recorder, growing) });
}

function rigOf(mode: ModeName, recorder: Recorder, growing: GrowingClock): Rig {
  const onPlan = (plan: Parameters<Recorder['planned']>[0]) => recorder.planned(plan);
  if (mode === 'nftables') return nftRig({ keep: 1000, now: recorder.modeTime, onPlan, growing }).rig;
  return mode === 'ipvs'
    ? ipvsRig({ onPlan, growing }).rig
    : new Rig({ commands: new FakeIptables(), onPlan, growing });
}

/** Records from now on; the result has the bytes so far. */
export function record(it: RecordedRig, mode: ModeName): { readonly bytes: () => Buffer } {
  const written: Uint8Array[] = [];
  const context = { parts: () => partsOf(mode), isWaiting: () => it.rig.mode.isWaiting, wall: () => it.clock.wall() };
  it.recorder.sinks.add(new RecordingWriter(it.recorder, context, (bytes) => written.push(bytes)));
  return { bytes: () => Buffer.concat(written) };
}

/** The bytes in chunks, as a file or a connection gives them. */
export async function* chunksOf(bytes: Buffer, size = 1000): AsyncGenerator<Uint8Array> {
  for (let i = 0; i < bytes.length; i += size) yield bytes.subarray(i, i + size);
}
