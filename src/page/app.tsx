/** The frame around the views: who answers, the way from view to view, and whether the agent is still there. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Empty, Sign } from './bits.tsx';
import { ExplainView } from './explain.tsx';
import { ExposureView } from './exposure.tsx';
import { useNow } from './hooks.ts';
import { go, useRoute } from './navigation.ts';
import { Overview } from './overview.tsx';
import { linkTo, type Route, type View } from './routes.ts';
import { goneText, signOfHealth } from './says.ts';
import { ServiceView } from './service.tsx';
import { ServicesView } from './services.tsx';
import { type Connection, follow, UNCONNECTED } from './stream.ts';
import { type Themes, useTheme } from './theme.ts';

const VIEWS: readonly { readonly view: View; readonly name: string; readonly link: string }[] = [
  { view: 'overview', name: 'Overview', link: linkTo({ view: 'overview' }) },
  { view: 'services', name: 'Services', link: linkTo({ view: 'services', search: '' }) },
  { view: 'explain', name: 'Explain', link: linkTo({ view: 'explain', from: '', to: '' }) },
  { view: 'exposure', name: 'Exposure', link: linkTo({ view: 'exposure', search: '' }) },
];

export function App() {
  const [connection, setConnection] = useState(UNCONNECTED);
  const route = useRoute();
  const theme = useTheme();
  useEffect(() => follow(setConnection), []);
  useEffect(searchBySlash, []);
  useEffect(() => {
    document.title = titleOf(route, connection);
  }, [route, connection.live?.by.node]);
  return (
    <>
      <button type="button" class="skip" onClick={toMain}>
        Skip to the content
      </button>
      <Head connection={connection} route={route} theme={theme} />
      <Gone connection={connection} />
      <Announced connection={connection} />
      <main id="main" tabIndex={-1}>
        <Shown route={route} connection={connection} theme={theme} />
      </main>
      <footer>
        <span>
          <kbd>/</kbd> search · <kbd>↑</kbd> <kbd>↓</kbd> <kbd>Enter</kbd> in lists
        </span>
        {connection.live !== undefined && <span>slicewire {connection.live.by.version}</span>}
      </footer>
    </>
  );
}

function Head({
  connection: { live, state },
  route,
  theme,
}: {
  readonly connection: Connection;
  readonly route: Route;
  readonly theme: Themes;
}) {
  const isIn = (view: View) => view === route.view || (view === 'services' && route.view === 'service');
  const words = { connecting: 'connecting', open: 'live', gone: 'gone', hidden: 'paused' } as const;
  return (
    <header class="top">
      <a class="brand" href={linkTo({ view: 'overview' })}>
        <img src="/page/icon.svg" alt="" width="26" height="26" />
        <span>
          <b>slicewire</b>
          {live !== undefined && <span class="node">{live.by.node}</span>}
        </span>
      </a>
      <nav aria-label="Views">
        {VIEWS.map(({ view, name, link }) => (
          <a key={view} href={link} aria-current={isIn(view) ? 'page' : undefined}>
            {name}
          </a>
        ))}
      </nav>
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

/** Drawn each second while the agent is gone. */
function Gone({ connection: { live, state, heardAt, refusal } }: { readonly connection: Connection }) {
  const version = useRef(live?.by.version);
  version.current ??= live?.by.version;
  if (state === 'gone') return refusal === undefined ? <GoneFor heardAt={heardAt} /> : <Bar>{refusal}</Bar>;
  if (live === undefined || live.by.version === version.current) return null;
  return (
    <Bar>
      The agent is slicewire {live.by.version} now, and this page is older.{' '}
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

function GoneFor({ heardAt }: { readonly heardAt: number }) {
  const now = useNow();
  return (
    <div class="gone" data-testid="gone">
      <Sign kind="bad" />
      <p>{goneText(heardAt, now)}</p>
    </div>
  );
}

/** For screen readers: only what changed in the health, not each second that passes. */
function Announced({ connection: { live, state } }: { readonly connection: Connection }) {
  const kind = live === undefined ? undefined : signOfHealth(live);
  const reasons = live?.health.reasons.join(' ') ?? '';
  const [text, setText] = useState('');
  useEffect(() => {
    if (state === 'gone') setText('The agent is gone.');
    else if (live !== undefined && state === 'open') setText(`${live.sentence} ${kind === 'ok' ? '' : reasons}`);
  }, [state, kind, reasons]);
  return (
    <p class="hidden" aria-live="polite" data-testid="announced">
      {text}
    </p>
  );
}

function Shown({
  route,
  connection,
  theme,
}: {
  readonly route: Route;
  readonly connection: Connection;
  readonly theme: Themes;
}) {
  const { live } = connection;
  // An agent that starts counts from the beginning.
  const revision = live === undefined ? '' : `${live.startedAt} ${live.revision}`;
  switch (route.view) {
    case 'overview':
      if (live !== undefined) return <Ticking connection={connection} theme={theme} />;
      return <Empty>Connecting to the agent…</Empty>;
    case 'services':
      return <ServicesView search={route.search} revision={revision} />;
    case 'service':
      return <ServiceView key={route.name} name={route.name} revision={revision} />;
    case 'explain':
      return <ExplainView from={route.from} to={route.to} revision={revision} />;
    case 'exposure':
      return <ExposureView search={route.search} revision={revision} />;
    case 'unknown':
      return <Empty>This page has no view {route.path}.</Empty>;
  }
}

function Ticking({ connection, theme }: { readonly connection: Connection; readonly theme: Themes }) {
  const { live, state, heardAt, clockAhead } = connection;
  const now = useNow();
  // Where the agent is gone, its time stands still.
  const seen = state === 'gone' ? heardAt : Math.max(now, heardAt);
  return live === undefined ? null : <Overview live={live} now={seen + clockAhead} theme={theme.seen} />;
}

function titleOf(route: Route, { live }: Connection): string {
  const view = route.view === 'service' ? route.name : (VIEWS.find((one) => one.view === route.view)?.name ?? '');
  return [view, live?.by.node, 'slicewire'].filter((part) => part !== undefined && part !== '').join(' · ');
}

/** No link: a fragment of the address is a view here. */
function toMain(): void {
  document.getElementById('main')?.focus();
}

/** The key `/` goes to the search of a view, and to that of the Services where a view has none. */
function searchBySlash(): () => void {
  const onKey = (event: KeyboardEvent) => {
    const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
    if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const field = document.getElementById('search');
    if (field !== null) return field.focus();
    go({ view: 'services', search: '' });
    setTimeout(() => document.getElementById('search')?.focus(), 50);
  };
  addEventListener('keydown', onKey);
  return () => removeEventListener('keydown', onKey);
}
