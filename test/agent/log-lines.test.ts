/** Lines of the log that are not about one sync. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { logKeptOomScore, logResized } from '../../src/agent/log-lines.ts';
import type { SetResized } from '../../src/proxy/modes/virtual-servers/apply.ts';
import type { Log } from '../../src/telemetry/log.ts';

function said(resized: Omit<SetResized, 'set' | 'kubeProxys'>): string[] {
  const lines: string[] = [];
  const at = (level: string) => (_: object, text: string) => void lines.push(`${level} ${text}`);
  const log = { warn: at('warn'), info: at('info') } as unknown as Log;
  logResized({ set: 'KUBE-CLUSTER-IP', kubeProxys: 65_536, ...resized }, log);
  return lines;
}

it('a set that kube-proxy cannot take over is told with both sizes and what to do, and so is its way back', () => {
  const rest =
    ', because its entries need it. kube-proxy takes over no set with another maxelem than 65536, and then writes nothing: ' +
    'run `slicewire cleanup` on this node before kube-proxy starts there';
  const set = 'the set KUBE-CLUSTER-IP of IPVS mode has maxelem';
  assert.deepEqual(said({ from: 65_536, to: 131_072 }), [`warn ${set} 131072, and had 65536${rest}`]);
  assert.deepEqual(said({ from: undefined, to: 131_072 }), [`warn ${set} 131072${rest}`]);
  const back = `info ${set} 65536 again, as kube-proxy's: kube-proxy can take it over`;
  assert.deepEqual(said({ from: 1_048_576, to: 65_536 }), [back]);
});

it('a score of the OOM killer that may not be lowered is told at -v 1, and any other failure always', () => {
  const lines: string[] = [];
  const at = (level: string) => (text: string) => void lines.push(`${level} ${text}`);
  const log = { v1: at('v1'), info: at('info') } as unknown as Log;
  for (const code of ['EACCES', 'EPERM', 'EROFS']) {
    const error = Object.assign(new Error(`${code}: it cannot be written`), { code });
    logKeptOomScore(error, log);
  }
  const text = (code: string) => `oom_score_adj stays unchanged: ${code}: it cannot be written`;
  assert.deepEqual(lines, [`v1 ${text('EACCES')}`, `v1 ${text('EPERM')}`, `info ${text('EROFS')}`]);
});
