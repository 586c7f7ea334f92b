/** The frame of the pages of agent and fleet: the name of the server, whether it still answers, the colours, and the key of the search. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Sign } from './bits.tsx';
import { useNow } from './hooks.ts';
import type { LiveConnection } from './stream.ts';
import type { Themes } from './theme.ts';

type State = LiveConnection<unknown>['state'];

/** A button and not a link, because a fragment of the address is a view of the page. */
export function Skip() {
  return (
    <button type="button" class="skip" onClick={() => document.getElementById('main')?.focus()}>
      Skip to the content
    </button>
  );
}

interface TopProps {
  readonly state: State;
  readonly theme: Themes;
  readonly link: string;
  /** The name of the server, below that of the program; undefined when not known yet. */
  readonly who: string | undefined;
  /** The links to the views. */
  readonly children?: ComponentChildren;
}

export function Top({ state, theme, link, who, children }: TopProps) {
  const words = { connecting: 'connecting', open: 'live', gone: 'gone', hidden: 'paused' } as const;
  return (
    <header class="top">
      <a class="brand" href={link}>
        <img src="/page/icon.svg" alt="" width="26" height="26" />
        <span>
          <b>slicewire</b>
          {who !== undefined && <span class="node">{who}</span>}
        </span>
      </a>
      {children}
      <span class={`pulse ${state}`}>
        <Sign kind={state === 'open' ? 'ok' : state === 'gone' ? 'bad' : 'waiting'} />
        <span>{words[state]}</span>
      </span>
      <button type="button" class="theme" onClick={() => theme.next()} aria-label={`Colours: ${theme.chosen}. Change`}>
        <span aria-hidden="true">{{ auto: '◐', light: '○', dark: '●' }[theme.chosen]}</span>
        <span class="word">{theme.chosen}</span>
      </button>
    </header>
  );
}

interface GoneProps {
  readonly connection: Pick<LiveConnection<unknown>, 'state' | 'heardAt' | 'refusal'>;
  /** "agent" or "fleet" */
  readonly who: string;
  /** The version of the server; undefined when not known yet. */
  readonly version: string | undefined;
  /** The text while the server is gone; both times in milliseconds since 1970. */
  readonly goneText: (heardAt: number, now: number) => string;
}

/** Drawn each second while the server is gone. */
export function Gone({ connection: { state, heardAt, refusal }, who, version, goneText }: GoneProps) {
  const first = useRef(version);
  first.current ??= version;
  if (state === 'gone') return refusal === undefined ? <GoneFor {...{ heardAt, goneText }} /> : <Bar>{refusal}</Bar>;
  if (version === undefined || version === first.current) return null;
  return (
    <Bar>
      The {who} is slicewire {version} now, and this page is older.{' '}
      <button type="button" onClick={() => location.reload()}>
        Load the new one
      </button>
    </Bar>
  );
}

function Bar({ children }: { readonly children: ComponentChildren }) {
  return (
    <div class="gone">
      <Sign kind="warn" />
      <p>{children}</p>
    </div>
  );
}

function GoneFor({ heardAt, goneText }: Pick<GoneProps, 'goneText'> & { readonly heardAt: number }) {
  const now = useNow();
  return (
    <div class="gone" data-testid="gone">
      <Sign kind="bad" />
      <p>{goneText(heardAt, now)}</p>
    </div>
  );
}

interface AnnouncedProps {
  readonly state: State;
  readonly gone: string;
  /** undefined before the first message. */
  readonly text: string | undefined;
  /** Changes when there is news, and not with each second that passes. */
  readonly reason: string;
}

/** For screen readers. */
export function Announced({ state, gone, text, reason }: AnnouncedProps) {
  const [announced, setAnnounced] = useState('');
  useEffect(() => {
    if (state === 'gone') setAnnounced(gone);
    else if (text !== undefined && state === 'open') setAnnounced(text);
  }, [state, reason]);
  return (
    <p class="hidden" aria-live="polite" data-testid="announced">
      {announced}
    </p>
  );
}

/** The server's time in milliseconds since 1970, renewed each second. While the server is gone, its time stands still. */
export function useServerTime({
  state,
  heardAt,
  clockAhead,
}: Omit<LiveConnection<unknown>, 'live' | 'refusal'>): number {
  const now = useNow();
  return (state === 'gone' ? heardAt : Math.max(now, heardAt)) + clockAhead;
}

/** The key `/` goes to the search of the view. `openSearch` opens a view with a search, for one that has none. */
export function useSearchKey(openSearch?: () => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
      if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      const field = document.getElementById('search');
      if (field === null && openSearch === undefined) return;
      event.preventDefault();
      if (field === null) openSearch?.();
      else field.focus();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
}
