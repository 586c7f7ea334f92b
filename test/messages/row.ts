import assert from 'node:assert/strict';

/** One message: what is given, and the whole of what is said. */
export interface Row<Input> {
  readonly name: string;
  readonly input: Input;
  readonly message: string;
}

/** The one message of a table that begins so: a sentence is written in its table, and other tests take it from there. */
export function messageIn(table: readonly Row<unknown>[], beginning: string): string {
  const found = new Set(table.map(({ message }) => message).filter((message) => message.startsWith(beginning)));
  assert.equal(found.size, 1, `${found.size} messages begin with "${beginning}"`);
  return [...found].join();
}

/**
 * Its problem alone, without the object, the field and the value before it (`where`), and without the effect after it. `begins`: first words of
 * the problem, where others have the same object and field.
 */
export function problemIn(table: readonly Row<unknown>[], where: string, begins = ''): string {
  return messageIn(table, `${where}: ${begins}`)
    .slice(`${where}: `.length)
    .replace(/ \((?:object set aside|file set aside|part left out|default used|no effect here)\)$/, '');
}
