/** The frame that the pages of agent and fleet share: who answers, whether it is still there, and the colours. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Sign } from './bits.tsx';
import { useNow } from './hooks.ts';
import type { LiveConnection } from './stream.ts';
import type { Themes } from './theme.ts';

type State = LiveConnection<unknown>['state'];

/** No link: a fragment of the address is a view of the page. */
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
  /** Below the name of the program; undefined: not known yet. */
  readonly who: string | undefined;
  /** The way from view to view. */
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
  /** The version of slicewire that answers; undefined: not known yet. */
  readonly version: string | undefined;
  /** Says that it is gone; both in milliseconds since 1970. */
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
  /** undefined: nothing is known yet. */
  readonly text: string | undefined;
  /** Changes when there is something to say, not with each second that passes. */
  readonly reason: string;
}

/** For screen readers. */
export function Announced({ state, gone, text, reason }: AnnouncedProps) {
  const [said, setSaid] = useState('');
  useEffect(() => {
    if (state === 'gone') setSaid(gone);
    else if (text !== undefined && state === 'open') setSaid(text);
  }, [state, reason]);
  return (
    <p class="hidden" aria-live="polite" data-testid="announced">
      {said}
    </p>
  );
}
