/** Reports a test as soon as it has failed, by its name. Node.js' own reporters wait for the end of its suite. */
import type { TestEvent } from 'node:test/reporters';

export const MARK = '@failed ';

// biome-ignore lint/style/noDefaultExport: the test runner takes a reporter's default export
export default async function* reporter(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const { type, data } of source) {
    if (type === 'test:complete' && !data.details.passed && data.details.type !== 'suite')
      yield `${MARK}${data.name}\n`;
  }
}
