/** Small elements of the views. */
import type { ComponentChildren } from 'preact';
import { useId, useState } from 'preact/hooks';
import { numberText } from '../inspect/wire/format.ts';
import type { FaultForm } from '../inspect/wire/schema-common.ts';
import { faultText, problemText } from '../proxy/model/objects.ts';
import type { SignKind } from './page-text.ts';

const FORMS: Readonly<Record<SignKind, ComponentChildren>> = {
  ok: [<circle cx="8" cy="8" r="7" />, <path d="M4.8 8.2 7 10.4l4.2-4.6" />],
  warn: [<path d="M8 1.6 15 14.2H1z" />, <path d="M8 6v3.6M8 11.7v.3" />],
  bad: [<path d="M5 1h6l4 4v6l-4 4H5l-4-4V5z" />, <path d="m5.6 5.6 4.8 4.8m0-4.8-4.8 4.8" />],
  waiting: [<circle class="dashed" cx="8" cy="8" r="6.6" />, <path class="open" d="M8 4.4V8l2.4 1.6" />],
  none: [<circle class="open" cx="8" cy="8" r="6.4" />],
  off: [<path class="open" d="M3 8h10" />],
};

/** Shape and colour mean the same. The word beside a sign is for those who see neither. */
export function Sign({ kind }: { readonly kind: SignKind }) {
  return (
    <svg class={`sign ${kind}`} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      {FORMS[kind]}
    </svg>
  );
}

/** A sign with its word. */
export function State({ kind, children }: { readonly kind: SignKind; readonly children: ComponentChildren }) {
  return (
    <span class={`state ${kind}`}>
      <Sign kind={kind} />
      <span>{children}</span>
    </span>
  );
}

/** Text of objects or other programs, isolated so that right-to-left letters in it do not reorder the text around it. */
export function Verbatim({
  children,
  class: name = '',
}: {
  readonly children: ComponentChildren;
  readonly class?: string;
}) {
  return <bdi class={`verbatim ${name}`}>{children}</bdi>;
}

interface CardProps {
  readonly title: string;
  readonly aside?: ComponentChildren;
  readonly class?: string;
  readonly children: ComponentChildren;
}

export function Card({ title, aside, class: name = '', children }: CardProps) {
  const id = useId();
  return (
    <section class={`card ${name}`} aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {aside !== undefined && <div class="aside">{aside}</div>}
      </header>
      {children}
    </section>
  );
}

/** A name with its value in a list of facts. */
export function Fact({
  name,
  link,
  children,
}: {
  readonly name: string;
  readonly link?: string;
  readonly children: ComponentChildren;
}) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{link === undefined ? children : <a href={link}>{children}</a>}</dd>
    </div>
  );
}

export function Empty({ children }: { readonly children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

/** The agent's reason for giving no answer. */
export function Problem({ children }: { readonly children: ComponentChildren }) {
  return (
    <p class="problem" role="alert">
      <Sign kind="warn" />
      <Verbatim>{children}</Verbatim>
    </p>
  );
}

/** Faults of objects, each with its object before it. */
export function FaultList({ faults }: { readonly faults: readonly FaultForm[] }) {
  return (
    <ul class="list" aria-label="Faults of objects">
      {faults.map((fault) => (
        <li key={faultText(fault)}>
          <Verbatim class="strong">{`${fault.kind} ${fault.object}`}</Verbatim>
          <Verbatim>{problemText(fault)}</Verbatim>
        </li>
      ))}
    </ul>
  );
}

/** Entries of a long list that are shown at first, and those that each press of the button adds. */
const DEFAULT_STEP = 100;

/** The first entries of a list that may be very long, and a button for more of them. */
export function useFirst<T>(list: readonly T[], step = DEFAULT_STEP): readonly [readonly T[], ComponentChildren] {
  const [limit, setLimit] = useState(step);
  if (list.length <= limit) return [list, null];
  const button = (
    <button type="button" class="quiet" onClick={() => setLimit(limit + step)}>
      Show more of {numberText(list.length)}
    </button>
  );
  return [list.slice(0, limit), button];
}

/** A table that is wider than the page scrolls sideways in itself. */
export function Table({
  label,
  heads,
  children,
}: {
  readonly label: string;
  readonly heads: readonly string[];
  readonly children: ComponentChildren;
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard
    <section class="scroll" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  );
}
