/** The program of the agent's page (docs/observe.md, The page): the views, the links to them, and the health of the agent. */
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Live } from '../inspect/wire/live.ts';
import { Empty } from './bits.tsx';
import { ExplainView } from './explain.tsx';
import { ExposureView } from './exposure.tsx';
import { Announced, Gone, Skip, Top, useSearchKey, useServerTime } from './frame.tsx';
import { Overview } from './overview.tsx';
import { goneText, signOfHealth } from './page-text.ts';
import { go, linkTo, type PageRoute, type PageView, useRoute } from './routes.ts';
import { ServiceView } from './service.tsx';
import { ServicesView } from './services.tsx';
import { AGENT_MESSAGES, follow, type LiveConnection, UNCONNECTED } from './stream.ts';
import { showStoredTheme, type Themes, useTheme } from './theme.ts';

type AgentConnection = LiveConnection<Live>;

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
  useEffect(() => follow(AGENT_MESSAGES, setConnection), []);
  useSearchKey(searchServices);
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

/** Announces changes of the health alone. */
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
  // An agent that starts counts its revisions from the beginning.
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
  const { live } = connection;
  const now = useServerTime(connection);
  return live === undefined ? null : <Overview live={live} now={now} theme={theme.seen} />;
}

function titleOf(route: PageRoute, { live }: AgentConnection): string {
  const view = route.view === 'service' ? route.name : (VIEWS.find((one) => one.view === route.view)?.name ?? '');
  return [view, live?.by.node, 'slicewire'].filter((part) => part !== undefined && part !== '').join(' · ');
}

/** The list of Services has a search. Its field exists once the view is drawn. */
function searchServices(): void {
  go({ view: 'services', search: '' });
  setTimeout(() => document.getElementById('search')?.focus(), 50);
}

showStoredTheme();
const root = document.getElementById('page');
if (root !== null) render(<App />, root);
