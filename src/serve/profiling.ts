/** Profiles of the running agent, for Chrome's developer tools: only with enableProfiling, one at a time. */
import { setTimeout as pause } from 'node:timers/promises';
import { type Answer, type Asked, jsonAnswer, NOT_FOUND, textAnswer } from './http.ts';

const INDEX = `/debug/pprof/profile?seconds=30  CPU time (.cpuprofile)
/debug/pprof/heap?seconds=30     allocated memory (.heapprofile)
`;
const SECONDS = 30;
export const MOST_SECONDS = 300;
let isBusy = false;

export async function profilingAnswer({ path, query, signal, mayWait }: Asked): Promise<Answer> {
  if (path === '/debug/pprof/' || path === '/debug/pprof') return textAnswer(200, INDEX);
  if (path !== '/debug/pprof/profile' && path !== '/debug/pprof/heap') return NOT_FOUND;
  const seconds = Number(query.get('seconds') ?? SECONDS);
  if (!(seconds > 0 && seconds <= MOST_SECONDS))
    return textAnswer(400, `seconds must be more than 0, at most ${MOST_SECONDS}\n`);
  if (isBusy) return textAnswer(503, 'another profile is being taken\n');
  isBusy = true;
  mayWait?.();
  try {
    const profile = await takeProfile(path.endsWith('heap') ? 'heap' : 'cpu', seconds * 1000, signal);
    return { ...jsonAnswer(200, JSON.stringify(profile)), isLong: true };
  } finally {
    isBusy = false;
  }
}

async function takeProfile(kind: 'cpu' | 'heap', milliseconds: number, signal: AbortSignal): Promise<unknown> {
  const { Session } = await import('node:inspector/promises');
  const session = new Session();
  session.connect();
  try {
    if (kind === 'heap') {
      await session.post('HeapProfiler.startSampling');
      await pause(milliseconds, undefined, { signal });
      return (await session.post('HeapProfiler.stopSampling')).profile;
    }
    await session.post('Profiler.enable');
    await session.post('Profiler.start');
    await pause(milliseconds, undefined, { signal });
    return (await session.post('Profiler.stop')).profile;
  } finally {
    session.disconnect();
  }
}
