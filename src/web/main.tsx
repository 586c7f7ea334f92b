/** The program of the page (docs/observe.md, The page). */
import { render } from 'preact';
import { App } from './app.tsx';
import { showStoredTheme } from './theme.ts';

showStoredTheme();
const root = document.getElementById('page');
if (root !== null) render(<App />, root);
