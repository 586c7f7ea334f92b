/** The program of the fleet's page (docs/fleet.md): one view, with a cell for each node. */
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { FleetLive } from '../inspect/wire/fleet.ts';
import { Empty } from './bits.tsx';
import { FleetOverview } from './fleet/fleet-overview.tsx';
import { fleetGoneText, signOfFleet } from './fleet/fleet-text.ts';
import { Announced, Gone, Skip, Top, useSearchKey, useServerTime } from './frame.tsx';
import { FLEET_MESSAGES, follow, type LiveConnection, UNCONNECTED } from './stream.ts';
import { showStoredTheme, useTheme } from './theme.ts';

type FleetConnection = LiveConnection<FleetLive>;

function FleetApp() {
  const [connection, setConnection] = useState<FleetConnection>(UNCONNECTED);
  const theme = useTheme();
  const { live, state } = connection;
  useEffect(() => follow(FLEET_MESSAGES, setConnection), []);
  useSearchKey();
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
  const { live } = connection;
  const now = useServerTime(connection);
  return live === undefined ? null : <FleetOverview live={live} now={now} theme={theme} />;
}

showStoredTheme();
const root = document.getElementById('page');
if (root !== null) render(<FleetApp />, root);
