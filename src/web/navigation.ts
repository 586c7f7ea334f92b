/** The address of the page is its state: a link opens the same view with the same question. */
import { useEffect, useState } from 'preact/hooks';
import { linkTo, type PageRoute, routeOf } from './routes.ts';

const CHANGED = 'slicewire:route';

/** `replace`: the step back leads to the view before, not to each letter of a search. */
export function go(route: Exclude<PageRoute, { readonly view: 'unknown' }>, how: 'push' | 'replace' = 'push'): void {
  if (how === 'push') {
    location.hash = linkTo(route);
    return;
  }
  history.replaceState(null, '', linkTo(route));
  dispatchEvent(new Event(CHANGED));
}

export function useRoute(): PageRoute {
  const [fragment, setFragment] = useState(location.hash);
  useEffect(() => {
    const onChange = () => setFragment(location.hash);
    for (const event of ['hashchange', 'popstate', CHANGED]) addEventListener(event, onChange);
    return () => {
      for (const event of ['hashchange', 'popstate', CHANGED]) removeEventListener(event, onChange);
    };
  }, []);
  return routeOf(fragment);
}
