/** A recorder whose folder of --record-dir is open, with a Service to change. */

import { RecordFolder } from '../../src/agent/recording/record-folder.ts';
import { realRecordingFiles } from '../../src/agent/recording/recording-files.ts';
import { HistoryArchive } from '../../src/agent/recording/recordings.ts';
import { service } from '../helpers/cluster/objects.ts';
import { RecordedRig } from '../inspect/history/recorded-rig.ts';
import { partsOf } from '../inspect/replay/recorded-parts.ts';

export interface RecordedFolder {
  readonly rig: RecordedRig;
  readonly folder: RecordFolder;
  readonly archive: HistoryArchive;
  readonly logged: string[];
  /** What questions said of damaged segments. */
  readonly problems: string[];
}

/** `size`: bytes of the folder; `most`: bytes of the recorder's memory. */
export async function recording(path: string, size: number, most?: number): Promise<RecordedFolder> {
  const rig = new RecordedRig(most === undefined ? {} : { most });
  const logged: string[] = [];
  const problems: string[] = [];
  const log = {
    info: (text: string) => logged.push(`info ${text}`),
    error: (text: string) => logged.push(`error ${text}`),
  };
  const { recorder, clock } = rig;
  const context = { parts: () => partsOf('iptables'), isWaiting: () => false, wall: () => clock.wall() };
  const folder = new RecordFolder({ files: realRecordingFiles, path, size, recorder, context, clock, log });
  await realRecordingFiles.makeFolder(path);
  const archive = new HistoryArchive({ recorder, folder: () => folder, onProblem: (text) => problems.push(text) });
  return { rig, folder, archive, logged, problems };
}

export function web(port: number, name = 'web'): object {
  const clusterIPs = ['10.96.0.7'];
  const ports = [{ name: 'http', port }];
  return service({ name, spec: { type: 'ClusterIP', clusterIP: clusterIPs[0], clusterIPs, ports } });
}
