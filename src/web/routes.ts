/** The views of the page and their links. The address of the page is its state: a link opens the same view with the same question. */
import { useEffect, useState } from 'preact/hooks';

export type PageRoute =
  | { readonly view: 'overview' }
  | { readonly view: 'services'; readonly search: string }
  | { readonly view: 'service'; readonly name: string }
  | { readonly view: 'explain'; readonly from: string; readonly to: string }
  | { readonly view: 'exposure'; readonly search: string }
  | { readonly view: 'unknown'; readonly path: string };

export type PageView = PageRoute['view'];

/** `fragment` is that of the address, such as `#/service?name=shop%2Fweb`. An unknown one is a route of its own. */
export function routeOf(fragment: string): PageRoute {
  const text = fragment.replace(/^#/, '');
  const [path = '', query = ''] = cut(text, '?');
  const of = new URLSearchParams(query);
  switch (path) {
    case '':
    case '/':
      return { view: 'overview' };
    case '/services':
      return { view: 'services', search: of.get('search') ?? '' };
    case '/service':
      return { view: 'service', name: of.get('name') ?? '' };
    case '/explain':
      return { view: 'explain', from: of.get('from') ?? '', to: of.get('to') ?? '' };
    case '/exposure':
      return { view: 'exposure', search: of.get('search') ?? '' };
    default:
      return { view: 'unknown', path };
  }
}

/** The link of a route; empty fields are left out. */
export function linkTo(route: Exclude<PageRoute, { readonly view: 'unknown' }>): string {
  const { view, ...fields } = route;
  if (view === 'overview') return '#/';
  const given = Object.entries(fields).filter(([, value]) => value !== '');
  const query = new URLSearchParams(given).toString();
  return query === '' ? `#/${view}` : `#/${view}?${query}`;
}

/** The path of a question to the agent, such as `/services?search=web&offset=0`. */
export function questionOf(path: string, parameters: Readonly<Record<string, string | number>>): string {
  const query = new URLSearchParams(Object.entries(parameters).map(([name, value]) => [name, String(value)]));
  return `${path}?${query.toString()}`;
}

/** The parts before and after the first separator. */
function cut(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + separator.length)];
}

const CHANGED = 'slicewire:route';

/** `replace`: a step back leads to the view before, and not to each letter of a search. */
export function go(route: Exclude<PageRoute, { readonly view: 'unknown' }>, how: 'push' | 'replace' = 'push'): void {
  if (how === 'push') {
    location.hash = linkTo(route);
    return;
  }
  replaceFragment(linkTo(route));
}

/** Changes the address without a step in the history of the tab. */
export function replaceFragment(fragment: string): void {
  history.replaceState(null, '', fragment);
  dispatchEvent(new Event(CHANGED));
}

export function useRoute(): PageRoute {
  return routeOf(useFragment());
}

/** The fragment of the address. */
export function useFragment(): string {
  const [fragment, setFragment] = useState(location.hash);
  useEffect(() => {
    const onChange = () => setFragment(location.hash);
    for (const event of ['hashchange', 'popstate', CHANGED]) addEventListener(event, onChange);
    return () => {
      for (const event of ['hashchange', 'popstate', CHANGED]) removeEventListener(event, onChange);
    };
  }, []);
  return fragment;
}
