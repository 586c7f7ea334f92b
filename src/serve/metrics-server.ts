/** The metrics server: /metrics, /proxyMode, /configz, /statusz, /flagz, /healthz, with profiling /debug (docs/reference/ports.md), the questions of query-handler.ts and the page. */

import { setTimeout as pause } from 'node:timers/promises';
import {
  type Answer,
  type Handler,
  type HttpRequest,
  jsonAnswer,
  NOT_FOUND,
  refusalOfMethod,
  textAnswer,
} from './http.ts';
import { AGENT_PAGE, pageAnswer, type ReadPage } from './page.ts';
import {
  LIVE,
  problemAnswer,
  type QueryRoutes,
  questionAnswer,
  refusalOf,
  refusalOnLoopback,
} from './query-handler.ts';
import { type Component, type ComponentInfo, zpageAnswer } from './zpages.ts';

/** Metrics in Prometheus' form. */
export interface MetricsText {
  readonly contentType: string;
  text(): Promise<string>;
}

export interface MetricsServerParts {
  readonly mode: () => string;
  /** The configuration in force, as a KubeProxyConfiguration. */
  readonly config: () => object;
  readonly metrics: () => MetricsText;
  readonly hasProfiling: () => boolean;
  readonly questions: QueryRoutes;
  readonly readPage: ReadPage;
  readonly component: ComponentInfo;
  readonly setVerbosity: (verbosity: number) => void;
}

export function metricsHandler(parts: MetricsServerParts): Handler {
  return async (request: HttpRequest) => {
    const { path, method } = request;
    const isWrite = path === '/debug/flags/v' && method === 'PUT' && parts.hasProfiling();
    const notAllowed = isWrite ? undefined : refusalOfMethod(request);
    if (notAllowed !== undefined) return notAllowed;
    const refusal = refusalOfPath(request, parts.questions.isLocal());
    if (refusal !== undefined) return problemAnswer(403, refusal);
    if (isWrite) return await setVerbosity(parts, request);
    switch (path) {
      case '/metrics':
        return await metricsAnswer(parts.metrics());
      case '/proxyMode':
        return textAnswer(200, parts.mode());
      case '/configz':
        return jsonAnswer(200, JSON.stringify({ 'kubeproxy.config.k8s.io': parts.config() }));
      case '/healthz':
        return textAnswer(200, 'ok');
      default:
        return (
          zpageAnswer(componentOf(parts), request) ??
          (await questionAnswer(parts.questions, request)) ??
          pageAnswer(AGENT_PAGE, parts.readPage, (one) => refusalOf(one, parts.questions.isLocal()), request) ??
          (await (parts.hasProfiling() ? profilingAnswer(request) : NOT_FOUND))
        );
    }
  };
}

/** Paths that a program of another machine, such as Prometheus, may request by a host name where the server listens at more than loopback. */
const FOR_MONITORING: readonly string[] = ['/metrics', '/proxyMode', '/healthz'];

/**
 * The refusal of a path that is no question; questions have a check of their own. A page in a browser that reaches loopback by DNS
 * rebinding is no client of this machine.
 */
function refusalOfPath(request: HttpRequest, isLocal: boolean): string | undefined {
  const isForMonitoring = FOR_MONITORING.includes(request.path);
  if (!isForMonitoring && request.path !== '/configz' && !request.path.startsWith('/debug/')) return undefined;
  return isForMonitoring && !isLocal ? refusalOnLoopback(request) : refusalOf(request, isLocal);
}

function componentOf({ component, questions, hasProfiling }: MetricsServerParts): Component {
  const { byPath, live, isLocal } = questions;
  const paths = () => [
    ...['/', '/metrics', '/proxyMode', '/configz', '/statusz', '/flagz', '/healthz', ...byPath.keys()],
    ...(live === undefined ? [] : [LIVE]),
    ...(hasProfiling() ? ['/debug/pprof/', '/debug/flags/v'] : []),
  ];
  return { name: 'slicewire', flag: '--metrics-bind-address', ...component, paths, isLocal };
}

/** Serves /metrics alone, for an address that other machines reach. */
export function scrapeHandler(metrics: () => MetricsText): Handler {
  return async (request: HttpRequest) => {
    const notAllowed = refusalOfMethod(request);
    if (notAllowed !== undefined) return notAllowed;
    if (request.path !== '/metrics') return NOT_FOUND;
    const refusal = refusalOnLoopback(request, '--scrape-bind-address');
    return refusal === undefined ? await metricsAnswer(metrics()) : problemAnswer(403, refusal);
  };
}

/** Texts that are being made. Requests that come meanwhile get the same text, so that many clients cost no more than one. */
const beingMade = new WeakMap<MetricsText, Promise<Buffer>>();

/** `metrics` must be the same object at each request. */
export async function metricsAnswer(metrics: MetricsText): Promise<Answer> {
  let text = beingMade.get(metrics);
  if (text === undefined) {
    text = metrics
      .text()
      .then((made) => Buffer.from(made))
      .finally(() => beingMade.delete(metrics));
    beingMade.set(metrics, text);
  }
  return { status: 200, headers: { 'content-type': metrics.contentType }, body: await text };
}

async function setVerbosity({ setVerbosity: set }: MetricsServerParts, request: HttpRequest) {
  const text = (await request.body()).trim();
  if (!/^\d{1,3}$/.test(text)) return textAnswer(400, `"${text}" is not a verbosity, such as 4\n`);
  set(Number(text));
  return textAnswer(200, `successfully set verbosity to ${text}`);
}

const INDEX = `/debug/pprof/profile?seconds=30  CPU time (.cpuprofile)
/debug/pprof/heap?seconds=30     allocated memory (.heapprofile)
`;
const SECONDS = 30;
export const MAX_SECONDS = 300;
let isBusy = false;

/** Profiles of the running agent, for Chrome's developer tools: only with enableProfiling, one at a time. */
async function profilingAnswer({ path, query, signal, mayWait }: HttpRequest): Promise<Answer> {
  if (path === '/debug/pprof/' || path === '/debug/pprof') return textAnswer(200, INDEX);
  if (path !== '/debug/pprof/profile' && path !== '/debug/pprof/heap') return NOT_FOUND;
  const seconds = Number(query.get('seconds') ?? SECONDS);
  if (!(seconds > 0 && seconds <= MAX_SECONDS))
    return textAnswer(400, `seconds must be more than 0, at most ${MAX_SECONDS}\n`);
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
