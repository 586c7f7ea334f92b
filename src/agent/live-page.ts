/** The live page's side of the agent: it notices what happens, and tells those who read. */

import { causeOf } from '../base/cause.ts';
import { type Clock, realClock } from '../base/clock.ts';
import type { Live } from '../inspect/wire/live.ts';
import { liveDelta } from '../inspect/wire/live-delta.ts';
import type { Answer, Asked } from '../serve/http.ts';
import { LiveStream } from '../serve/live.ts';
import type { Overview } from './questions/overview.ts';

export class LivePage {
  readonly #stream: LiveStream<Live>;
  /** `liveSchema.revision` */
  #revision = 0;

  constructor(
    overview: Pick<Overview, 'live' | 'forget'>,
    onProblem: (text: string) => void,
    clock: Pick<Clock, 'now' | 'after'> = realClock,
  ) {
    const whole = () => overview.live(this.#revision);
    const onThrown = (error: unknown) =>
      onProblem(`an event of the live page could not be made: ${causeOf(error)}; the pages ask again`);
    this.#stream = new LiveStream({ whole, delta: liveDelta, onThrown, onRest: () => overview.forget() }, clock);
  }

  /** The page may show something else now. Costs next to nothing while nobody reads. */
  readonly happened = (): void => {
    this.#revision += 1;
    this.#stream.touch();
  };

  /** The stream of `/live`. Throws NoAnswer where too many read. */
  readonly open = (asked: Pick<Asked, 'encodings' | 'signal'>): Answer => this.#stream.open(asked);
}
