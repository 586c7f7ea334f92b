/** The list of Services with its search. Of a very long list only the visible rows are in the document. */
import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { countText, numberText } from '../inspect/wire/format.ts';
import type { ServiceRow } from '../inspect/wire/services.ts';
import { Empty, Problem, State, Verbatim } from './bits.tsx';
import { signOfState } from './page-text.ts';
import { go, linkTo } from './routes.ts';
import { rowAfter, rowsIn, type ServiceList, topFor, useServices } from './row-windows.ts';

/** Pixels, the same as in style/services.css. */
const ROW_HEIGHT = 46;
const NARROW_ROW_HEIGHT = 84;
const NARROW = '(max-width: 760px)';
/** A search begins so long after the last letter. */
const TYPING_PAUSE_MS = 120;

export function ServicesView({ search, revision }: { readonly search: string; readonly revision: string }) {
  const [typed, setTyped] = useState(search);
  const list = useServices(search, revision);
  // These effects run with the drawing. Later ones would lose a letter that is typed meanwhile, and a timer that is due would undo the next step.
  useLayoutEffect(() => setTyped(search), [search]);
  useLayoutEffect(() => {
    if (typed === search) return;
    const timer = setTimeout(() => go({ view: 'services', search: typed }, 'replace'), TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed, search]);
  return (
    <section class="services" aria-label="Services">
      <h1>Services</h1>
      <div class="search">
        <input
          id="search"
          type="search"
          value={typed}
          aria-label="Search Services by name, address, port, node port or endpoint address"
          placeholder="Name, address, port, node port, endpoint address"
          autocomplete="off"
          spellcheck={false}
          maxLength={200}
          onInput={(event) => setTyped(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== 'ArrowDown' && event.key !== 'Enter') return;
            event.preventDefault();
            if (typed !== search) go({ view: 'services', search: typed }, 'replace');
            document.getElementById('rows')?.focus();
          }}
        />
        <p role="status" class="count">
          {list.total === undefined ? 'Asking the agent…' : countText(list.total, 'Service')}
        </p>
      </div>
      {list.problem !== undefined && <Problem>{list.problem}</Problem>}
      {list.total === 0 ? (
        <Empty>{search === '' ? 'This node has no Services.' : 'No Service fits this search.'}</Empty>
      ) : (
        <Rows list={list} />
      )}
    </section>
  );
}

function Rows({ list }: { readonly list: ServiceList }) {
  const box = useRef<HTMLDivElement>(null);
  const [scroll, measure] = useScroll(box);
  const [current, setCurrent] = useState(0);
  const rowHeight = useNarrow() ? NARROW_ROW_HEIGHT : ROW_HEIGHT;
  const total = list.total ?? 0;
  const seen = { ...scroll, rowHeight, total };
  const rows = rowsIn(seen);
  useEffect(() => list.see(rows), [list, rows.first, rows.end]);
  // A new search begins at its top. The element stays, and keeps the focus.
  useLayoutEffect(() => {
    setCurrent(0);
    if (box.current !== null) box.current.scrollTop = 0;
  }, [list]);
  const onKeyDown = (event: KeyboardEvent) => {
    const name = list.row(current)?.service;
    if (event.key === 'Enter' && name !== undefined) return go({ view: 'service', name });
    const next = rowAfter(event.key, current, total, Math.max(1, Math.floor(scroll.height / rowHeight) - 1));
    if (next === undefined || box.current === null) return;
    event.preventDefault();
    setCurrent(next);
    box.current.scrollTop = topFor(next, { ...seen, top: box.current.scrollTop });
  };
  return (
    <div class="grid">
      <div class="heads" aria-hidden="true">
        {['State', 'Service', 'Type', 'Addresses', 'Ports', 'Endpoints'].map((head) => (
          <span key={head}>{head}</span>
        ))}
      </div>
      <div
        ref={box}
        id="rows"
        role="listbox"
        aria-label="Services: arrow keys move, Enter opens"
        aria-activedescendant={list.row(current) === undefined ? undefined : `row-${current}`}
        tabIndex={0}
        onScroll={measure}
        onKeyDown={onKeyDown}
      >
        <div class="all" role="presentation" style={{ height: `${total * rowHeight}px` }}>
          {Array.from({ length: rows.end - rows.first }, (_, i) => rows.first + i).map((index) => (
            <Row
              key={index}
              index={index}
              {...{ total, rowHeight }}
              row={list.row(index)}
              isCurrent={index === current}
            />
          ))}
        </div>
      </div>
    </div>
  );
}

/** The scroll position of an element, and its height. `measure` must be called when it scrolls. */
function useScroll(box: RefObject<HTMLDivElement | null>) {
  const [scroll, setScroll] = useState({ top: 0, height: 600 });
  const measure = () => {
    if (box.current !== null) setScroll({ top: box.current.scrollTop, height: box.current.clientHeight });
  };
  useLayoutEffect(() => {
    if (box.current === null) return;
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return [scroll, measure] as const;
}

interface RowProps {
  readonly index: number;
  readonly total: number;
  readonly rowHeight: number;
  readonly row: ServiceRow | undefined;
  readonly isCurrent: boolean;
}

function Row({ index, total, rowHeight, row, isCurrent }: RowProps) {
  const place = { transform: `translateY(${index * rowHeight}px)`, height: `${rowHeight}px` };
  if (row === undefined) return <div class="row blank" role="presentation" style={place} />;
  const { service, type, addresses, ports, endpoints, state, why } = row;
  const [namespace = '', name = ''] = service.split('/', 2);
  return (
    <a
      id={`row-${index}`}
      class={`row${isCurrent ? ' current' : ''}`}
      role="option"
      aria-selected={isCurrent}
      aria-posinset={index + 1}
      aria-setsize={total}
      tabIndex={-1}
      href={linkTo({ view: 'service', name: service })}
      style={place}
    >
      <State kind={signOfState(state)}>{state}</State>
      <span class="name" title={service}>
        <span class="muted">{namespace}/</span>
        <b>{name}</b>
        {why !== '' && <Verbatim class="why">{why}</Verbatim>}
      </span>
      <span class="type">{type}</span>
      <span class="addresses mono" title={addresses.join(', ')}>
        {addresses.join(', ')}
      </span>
      <span class="ports mono" title={ports.join(', ')}>
        {ports.join(', ')}
      </span>
      <span class="number endpoints">
        {numberText(endpoints)} <span class="unit">{endpoints === 1 ? 'endpoint' : 'endpoints'}</span>
      </span>
    </a>
  );
}

function useNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(matchMedia(NARROW).matches);
  useEffect(() => {
    const media = matchMedia(NARROW);
    const onChange = () => setNarrow(media.matches);
    media.addEventListener('change', onChange);
    return () => media.removeEventListener('change', onChange);
  }, []);
  return isNarrow;
}
