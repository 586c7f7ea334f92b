/** The program of the fleet's page (docs/fleet.md). */
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { FleetLive } from '../inspect/wire/fleet.ts';
import { Empty } from './bits.tsx';
import { fleetGoneText, signOfFleet } from './fleet/fleet-text.ts';
import { FleetOverview } from './fleet/overview.tsx';
import { Announced, Gone, Skip, Top } from './frame.tsx';
import { useNow } from './hooks.ts';
import { follow, type LiveConnection, type MessageForm, mergedFleet, UNCONNECTED } from './stream.ts';
import { showStoredTheme, useTheme } from './theme.ts';

// The fleet's page: one view, with every node a cell.

type FleetConnection = LiveConnection<FleetLive>;

const READING: MessageForm<FleetLive> = { merged: mergedFleet, atOf: ({ at }) => at };

function FleetApp() {
  const [connection, setConnection] = useState<FleetConnection>(UNCONNECTED);
  const theme = useTheme();
  const { live, state } = connection;
  useEffect(() => follow(READING, setConnection), []);
  useEffect(searchBySlash, []);
  const kind = live === undefined ? undefined : signOfFleet(live.nodes, 0);
  return (
    <>
      <Skip />
      <Top state={state} theme={theme} link="#/" who={live === undefined ? undefined : `fleet · ${live.replica}`}>
        <span class="filler" />
      </Top>
      <Gone connection={connection} who="fleet" version={live?.version} goneText={fleetGoneText} />
      <Announced state={state} gone="The connection to the fleet is lost." text={live?.sentence} reason={`${kind}`} />
      <main id="main" tabIndex={-1}>
        {live === undefined ? (
          <Empty>Connecting to the fleet…</Empty>
        ) : (
          <Ticking connection={connection} theme={theme.seen} />
        )}
      </main>
      <footer>
        <span>
          <kbd>/</kbd> search · <kbd>←</kbd> <kbd>↑</kbd> <kbd>↓</kbd> <kbd>→</kbd> <kbd>Enter</kbd> in the map
        </span>
        {live !== undefined && <span>slicewire {live.version}</span>}
      </footer>
    </>
  );
}

function Ticking({ connection, theme }: { readonly connection: FleetConnection; readonly theme: string }) {
  const { live, state, heardAt, clockAhead } = connection;
  const now = useNow();
  // Where the fleet is gone, its time stands still.
  const seen = state === 'gone' ? heardAt : Math.max(now, heardAt);
  return live === undefined ? null : <FleetOverview live={live} now={seen + clockAhead} theme={theme} />;
}

/** The key `/` goes to the search of the nodes. */
function searchBySlash(): () => void {
  const onKey = (event: KeyboardEvent) => {
    const field = document.getElementById('search');
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey) return;
    if (field === null || event.target === field) return;
    event.preventDefault();
    field.focus();
  };
  addEventListener('keydown', onKey);
  return () => removeEventListener('keydown', onKey);
}

showStoredTheme();
const root = document.getElementById('page');
if (root !== null) render(<FleetApp />, root);
