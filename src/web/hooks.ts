/** What the views share: the time, the width of an element, and answers of the agent. */
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
  /** Why there is none, or no newer one; undefined: nothing is wrong. */
  readonly problem: string | undefined;
  readonly isLoading: boolean;
}

/** Asks when the path changes, and again when `revision` does. `path` undefined: nothing is asked. */
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
/** Milliseconds between two questions for the same, at least and at most. */
const MIN_PAUSE_MS = 400;
const MAX_PAUSE_MS = 10_000;
/** A tab takes a tenth of the agent's time at most, however often something changes: a long answer holds its syncs up. */
const REST = 10;
/** The same after a failure that may pass. */
const LONG_PAUSE = 3000;

/** Milliseconds until the next question, after an answer that took so many. */
export function pauseAfter(took: number): number {
  return Math.min(MAX_PAUSE_MS, Math.max(MIN_PAUSE_MS, REST * took));
}

interface Polling {
  again(): void;
  stop(): void;
}

/** The document of a tab. */
type Tab = Pick<Document, 'visibilityState'> & EventTarget;

/** Resolves when the tab is seen, or the signal aborts: a tab that nobody sees asks nothing. */
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
          pause = LONG_PAUSE;
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

// Questions to the agent by HTTP. An answer has the form of its schema in inspect/wire/: page and agent are of one executable.

/** The agent's own words why there is no answer, or that it cannot be reached. */
export class Unanswered extends Error {
  /** It may be answered a little later. */
  readonly isPassing: boolean;

  constructor(message: string, isPassing: boolean) {
    super(message);
    this.isPassing = isPassing;
  }
}

/** Throws Unanswered, and the reason of the signal when that aborts. */
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

/** The sentence of an answer of kind Problem; undefined: it is none. */
export function problemIn(text: string): string | undefined {
  try {
    const { message }: { readonly message?: unknown } = JSON.parse(text);
    return typeof message === 'string' ? message : undefined;
  } catch {
    return undefined;
  }
}
