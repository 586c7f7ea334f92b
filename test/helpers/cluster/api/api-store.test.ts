/** The store of the API server for tests: objects of any moment, from any key on. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { service } from '../objects.ts';
import { ApiStore, itemText, objectText } from './api-store.ts';

function put(store: ApiStore, name: string, clusterIP = '10.96.0.1'): void {
  store.put(service({ name, spec: { clusterIP } }) as Parameters<ApiStore['put']>[0]);
}

const keys = (store: ApiStore, version: number, start?: string) =>
  [...store.from(version, 'Service', start)].map(([key]) => key.slice('default/'.length)).join(' ');

test('objects in the order of their keys, from one on', () => {
  const store = new ApiStore();
  for (const name of ['c', 'a', 'd', 'b']) put(store, name);
  assert.equal(keys(store, store.version), 'a b c d');
  assert.equal(keys(store, store.version, 'default/b\0'), 'c d');
  put(store, 'ab');
  assert.equal(keys(store, store.version, 'default/ab'), 'ab b c d');
  assert.equal(keys(store, store.version, 'z'), '');
  assert.deepEqual([...store.from(store.version, 'Node')], []);
});

test('objects as they were', () => {
  const store = new ApiStore();
  put(store, 'a');
  const before = store.version;
  put(store, 'a', '10.96.0.2');
  put(store, 'b');
  store.delete('Service', 'default/a');
  assert.equal(keys(store, before), 'a');
  assert.equal([...store.from(before, 'Service')][0]?.[1], store.changesSince(before)[0]?.before);
  assert.equal(keys(store, before + 2), 'a b');
  assert.equal(keys(store, store.version), 'b');
  assert.equal(store.changesSince(before).length, 3);
});

test('after a compaction only what is', () => {
  const store = new ApiStore();
  put(store, 'a');
  put(store, 'b');
  store.delete('Service', 'default/a');
  store.compact();
  assert.equal(keys(store, store.version), 'b');
  assert.deepEqual(store.changesSince(0), []);
  put(store, 'a');
  assert.equal(keys(store, store.version), 'a b');
});

test('an object as text, with its kind and without', () => {
  const store = new ApiStore();
  put(store, 'a');
  const object = store.get('Service', 'default/a');
  assert.ok(object);
  assert.deepEqual(JSON.parse(objectText(object)), object);
  const { kind: _, apiVersion: __, ...item } = object;
  assert.deepEqual(JSON.parse(itemText(object)), item);
});
