/** The program of the page (docs/operations.md, The page). */
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Live } from '../inspect/wire/live.ts';
import { Empty } from './bits.tsx';
import { ExplainView } from './explain.tsx';
import { ExposureView } from './exposure.tsx';
import { Announced, Gone, Skip, Top } from './frame.tsx';
import { useNow } from './hooks.ts';
import { Overview } from './overview.tsx';
import { goneText, signOfHealth } from './page-text.ts';
import { go, linkTo, type PageRoute, type PageView, useRoute } from './routes.ts';
import { ServiceView } from './service.tsx';
import { ServicesView } from './services.tsx';
import { follow, type LiveConnection, type MessageForm, merged, UNCONNECTED } from './stream.ts';
import { showStoredTheme, type Themes, useTheme } from './theme.ts';

// The frame around the views: who answers, the way from view to view, and whether the agent is still there.

type AgentConnection = LiveConnection<Live>;

const READING: MessageForm<Live> = { merged, atOf: ({ by }) => by?.at };

const VIEWS: readonly { readonly view: PageView; readonly name: string; readonly link: string }[] = [
  { view: 'overview', name: 'Overview', link: linkTo({ view: 'overview' }) },
  { view: 'services', name: 'Services', link: linkTo({ view: 'services', search: '' }) },
  { view: 'explain', name: 'Explain', link: linkTo({ view: 'explain', from: '', to: '' }) },
  { view: 'exposure', name: 'Exposure', link: linkTo({ view: 'exposure', search: '' }) },
];

function App() {
  const [connection, setConnection] = useState<AgentConnection>(UNCONNECTED);
  const route = useRoute();
  const theme = useTheme();
  useEffect(() => follow(READING, setConnection), []);
  useEffect(searchBySlash, []);
  useEffect(() => {
    document.title = titleOf(route, connection);
  }, [route, connection.live?.by.node]);
  return (
    <>
      <Skip />
      <Head connection={connection} route={route} theme={theme} />
      <Gone connection={connection} who="agent" version={connection.live?.by.version} goneText={goneText} />
      <Health connection={connection} />
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
  readonly connection: AgentConnection;
  readonly route: PageRoute;
  readonly theme: Themes;
}) {
  const isIn = (view: PageView) => view === route.view || (view === 'services' && route.view === 'service');
  return (
    <Top state={state} theme={theme} link={linkTo({ view: 'overview' })} who={live?.by.node}>
      <nav aria-label="Views">
        {VIEWS.map(({ view, name, link }) => (
          <a key={view} href={link} aria-current={isIn(view) ? 'page' : undefined}>
            {name}
          </a>
        ))}
      </nav>
    </Top>
  );
}

/** Announces only what changed in the health. */
function Health({ connection: { live, state } }: { readonly connection: AgentConnection }) {
  const kind = live === undefined ? undefined : signOfHealth(live);
  const reasons = live?.health.reasons.join(' ') ?? '';
  const text = live === undefined ? undefined : `${live.sentence} ${kind === 'ok' ? '' : reasons}`;
  return <Announced state={state} gone="The agent is gone." text={text} reason={`${kind} ${reasons}`} />;
}

function Shown({
  route,
  connection,
  theme,
}: {
  readonly route: PageRoute;
  readonly connection: AgentConnection;
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

function Ticking({ connection, theme }: { readonly connection: AgentConnection; readonly theme: Themes }) {
  const { live, state, heardAt, clockAhead } = connection;
  const now = useNow();
  // Where the agent is gone, its time stands still.
  const seen = state === 'gone' ? heardAt : Math.max(now, heardAt);
  return live === undefined ? null : <Overview live={live} now={seen + clockAhead} theme={theme.seen} />;
}

function titleOf(route: PageRoute, { live }: AgentConnection): string {
  const view = route.view === 'service' ? route.name : (VIEWS.find((one) => one.view === route.view)?.name ?? '');
  return [view, live?.by.node, 'slicewire'].filter((part) => part !== undefined && part !== '').join(' · ');
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

showStoredTheme();
const root = document.getElementById('page');
if (root !== null) render(<App />, root);
