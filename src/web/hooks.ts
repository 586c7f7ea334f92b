/** Hooks of the views: the time, the width of an element, and answers of the agent over HTTP. */
import type { RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

/** Milliseconds since 1970, renewed each second. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** An element and its width in pixels; 0 before it is measured. */
export function useWidth<E extends HTMLElement>(): [RefObject<E | null>, number] {
  const element = useRef<E>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (element.current === null) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}

interface PolledAnswer<T> {
  readonly answer: T | undefined;
  /** The reason why there is no answer, or no newer one; undefined without a problem. */
  readonly problem: string | undefined;
  readonly isLoading: boolean;
}

/** Asks when the path changes, and again when `revision` does. Without a path nothing is asked. */
export function useAnswer<T>(path: string | undefined, revision: string): PolledAnswer<T> {
  const [state, setState] = useState<PolledAnswer<T> & { readonly of: string | undefined }>({
    ...NOTHING,
    of: undefined,
  });
  const asking = useRef<Polling>(undefined);
  useEffect(() => {
    if (path === undefined) return;
    setState({ ...NOTHING, isLoading: true, of: path });
    asking.current = keepAsking<T>(path, (change) =>
      setState((before) => ({ ...before, ...change, isLoading: false })),
    );
    return () => asking.current?.stop();
  }, [path]);
  useEffect(() => asking.current?.again(), [revision]);
  // In the first pass after a change the state is still that of the former path.
  return state.of === path ? state : { ...NOTHING, isLoading: path !== undefined };
}

const NOTHING = { answer: undefined, problem: undefined, isLoading: false } as const;
/** Pauses between two questions for the same. */
const MIN_PAUSE_MS = 400;
const MAX_PAUSE_MS = 10_000;
/** A tab takes at most a tenth of the agent's time, because a long answer delays its syncs. */
const PAUSES_PER_ANSWER = 10;
/** The pause after a failure that may pass. */
const FAILURE_PAUSE_MS = 3000;

/** Milliseconds until the next question, by those that the last answer took. */
export function pauseAfter(took: number): number {
  return Math.min(MAX_PAUSE_MS, Math.max(MIN_PAUSE_MS, PAUSES_PER_ANSWER * took));
}

interface Polling {
  again(): void;
  stop(): void;
}

/** The document of a tab. */
type Tab = Pick<Document, 'visibilityState'> & EventTarget;

/** Resolves when the tab is visible, or the signal aborts. A hidden tab asks nothing. */
export function whenSeen(signal: AbortSignal, tab: Tab = document): Promise<void> {
  return new Promise((resolve) => {
    if (tab.visibilityState === 'visible' || signal.aborted) return resolve();
    const ended = new AbortController();
    const onChange = () => {
      if (tab.visibilityState !== 'visible' && !signal.aborted) return;
      ended.abort();
      resolve();
    };
    tab.addEventListener('visibilitychange', onChange, { signal: ended.signal });
    signal.addEventListener('abort', onChange, { signal: ended.signal });
  });
}

/** Asks now and after each `again`, one question at a time. */
function keepAsking<T>(
  path: string,
  onEnd: (change: { readonly answer?: T; readonly problem: string | undefined }) => void,
): Polling {
  const stop = new AbortController();
  let isBusy = false;
  let isWanted = false;
  const work = async () => {
    isBusy = true;
    do {
      isWanted = false;
      const began = performance.now();
      let pause = MIN_PAUSE_MS;
      try {
        onEnd({ answer: await ask<T>(path, stop.signal), problem: undefined });
        pause = pauseAfter(performance.now() - began);
      } catch (error) {
        if (stop.signal.aborted) return;
        onEnd({ problem: error instanceof Unanswered ? error.message : String(error) });
        if (error instanceof Unanswered && error.isPassing) {
          isWanted = true;
          pause = FAILURE_PAUSE_MS;
        }
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
      await whenSeen(stop.signal);
      // Another question may have come in the pause.
    } while (isWanted && !stop.signal.aborted);
    isBusy = false;
  };
  void work();
  return {
    again() {
      if (isBusy) isWanted = true;
      else void work();
    },
    stop: () => stop.abort(),
  };
}

/** The message is the agent's own reason, or says that the agent cannot be reached. */
export class Unanswered extends Error {
  /** The same question may have an answer a little later. */
  readonly isPassing: boolean;

  constructor(message: string, isPassing: boolean) {
    super(message);
    this.isPassing = isPassing;
  }
}

/**
 * The answer to a question over HTTP. It has the form of its schema in inspect/wire/ unchecked, because page and agent come from one
 * executable. Throws Unanswered, and the reason of the signal when that aborts.
 */
export async function ask<T>(path: string, signal: AbortSignal): Promise<T> {
  const response = await fetch(path, { signal, cache: 'no-store' }).catch(() => {
    signal.throwIfAborted();
    throw new Unanswered('The agent cannot be reached.', true);
  });
  const text = await response.text().catch(() => {
    signal.throwIfAborted();
    throw new Unanswered('The agent ended the connection before its answer was complete.', true);
  });
  if (!response.ok)
    throw new Unanswered(problemIn(text) ?? `The agent answered ${response.status}: ${text}`, response.status >= 500);
  return JSON.parse(text);
}

/** The sentence of an answer of kind Problem; undefined for another answer. */
export function problemIn(text: string): string | undefined {
  try {
    const { message }: { readonly message?: unknown } = JSON.parse(text);
    return typeof message === 'string' ? message : undefined;
  } catch {
    return undefined;
  }
}
