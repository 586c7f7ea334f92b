/**
 * The stream of the agent's live page. It raises the revision of the page with each change, by which the page reads its rows again
 * (`web/row-windows.ts`), and sends what changed (`inspect/wire/live-delta.ts`).
 */
import { causeOf } from '../base/cause.ts';
import { type Clock, realClock } from '../base/clock.ts';
import type { Live } from '../inspect/wire/live.ts';
import { liveDelta } from '../inspect/wire/live-delta.ts';
import { EventStreams, PAGE_STREAM } from '../serve/event-stream.ts';
import type { Answer, HttpRequest } from '../serve/http.ts';
import type { Overview } from './questions/overview.ts';

export class LivePage {
  readonly #stream: EventStreams<Live>;
  /** `liveSchema.revision` */
  #revision = 0;

  constructor(
    overview: Pick<Overview, 'live' | 'forget'>,
    onProblem: (text: string) => void,
    clock: Pick<Clock, 'now' | 'after'> = realClock,
  ) {
    const now = () => overview.live(this.#revision);
    const whole = (live: Live) => live;
    const onThrown = (error: unknown) =>
      onProblem(`an event of the live page could not be made: ${causeOf(error)}; the pages ask again`);
    const source = { now, whole, changed: liveDelta, onThrown, onRest: () => overview.forget() };
    this.#stream = new EventStreams(PAGE_STREAM, source, clock);
  }

  /** The content of the page may have changed. This costs next to nothing without readers. */
  readonly changed = (): void => {
    this.#revision += 1;
    this.#stream.touch();
  };

  /** The stream of `/live`. Throws NoAnswer where too many read. */
  readonly open = (request: Pick<HttpRequest, 'encodings' | 'signal' | 'hangUp'>): Answer => this.#stream.open(request);
}
