/** The program of the fleet's page (docs/fleet.md). */
import { render } from 'preact';
import { FleetApp } from './fleet/app.tsx';
import { showStoredTheme } from './theme.ts';

showStoredTheme();
const root = document.getElementById('page');
if (root !== null) render(<FleetApp />, root);
