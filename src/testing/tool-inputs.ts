import assert from 'node:assert/strict'
import { isHapaxError } from '../base/index.ts'

/** Something that a person might pass to a tool without meaning it. */
export type Call = readonly [name: string, call: () => unknown]

/** Turns into a text that would end a statement, wherever something is glued into one. */
const HOSTILE_OBJECT: object = { toString: () => `x'; drop table x; --` }

const NO_OBJECTS: readonly unknown[] = [null, 'billing', 7, true, [], ['billing'], new Map(), new Date(0), () => {}]
const NO_TEXTS: readonly unknown[] = [
  null,
  '',
  7,
  true,
  [],
  ['billing'],
  {},
  HOSTILE_OBJECT,
  '\ud800',
  'x'.repeat(3000),
]
/** Texts that are not accepted as names: they would look like others, or move the cursor of a terminal. */
const NO_NAMES: readonly unknown[] = ['a\u001b[2J', 'a\u009bb', 'a\nb', 'a\0b', 'a\u202eb', 'a\u2066b']
const NO_AGES: readonly unknown[] = [
  null,
  '',
  '5',
  -1,
  0,
  0.5,
  Number.NaN,
  1e300,
  Number.POSITIVE_INFINITY,
  new Date(0),
]

/** Conditions that name something, but nothing that can be looked for. */
function filters(texts: readonly string[]): readonly unknown[] {
  const each = (names: readonly string[], values: readonly unknown[]): readonly unknown[] =>
    names.flatMap((name) => values.map((value) => ({ [name]: value })))
  return [
    ...NO_OBJECTS,
    ...each(texts, NO_TEXTS),
    ...each(['olderThanMs', 'newerThanMs'], NO_AGES),
    { consumerName: 'billing' },
    { all: false },
    JSON.parse('{"__proto__": {"consumer": "billing"}}'),
  ]
}

/** Filters that say nothing: for a list that is everything, for a change it is a mistake. */
const SAY_NOTHING: readonly unknown[] = [
  undefined,
  {},
  { consumer: undefined },
  { type: 'ping', consumer: undefined },
  { type: undefined },
  { replaced: false },
  { all: null },
  { all: 'true' },
  { all: true, consumer: 'billing' },
]

const FAILED_TEXTS = ['origin', 'consumer', 'type', 'reason', 'errorHash']
const PAGES: readonly unknown[] = [
  { limit: 0 },
  { limit: -1 },
  { limit: null },
  { limit: '5' },
  { before: null },
  { before: -1 },
  { before: '12' },
  { before: '9223372036854775808-1' },
]
const BULK: readonly unknown[] = [
  ...NO_OBJECTS,
  { limit: 0 },
  { limit: null },
  { limit: '5' },
  { perSecond: 0 },
  { perSecond: null },
  { signal: null },
  { signal: {} },
  { onResult: 'log' },
  { dryRun: true },
]
const BY: readonly unknown[] = [
  ...NO_OBJECTS,
  { actor: '' },
  { actor: null },
  { actor: HOSTILE_OBJECT },
  { note: null },
  { by: 'ada' },
]
const SEQS: readonly unknown[] = [
  ...[null, undefined, '', 1, -1, '0', '-1', '1', '1 or 1=1', `1'`, {}, ['1'], HOSTILE_OBJECT],
  // More than databases count to.
  '9223372036854775808-1',
]

type Tool = (...args: never[]) => unknown

function calls(name: string, tool: Tool, first: readonly unknown[], inputs: readonly unknown[]): readonly Call[] {
  return inputs.map((input) => {
    const shown = `${name}(${String(JSON.stringify(input)).slice(0, 60)})`
    return [shown, () => tool(...([...first, input] as never[]))]
  })
}

/** The methods of a failed store, with inputs that none of them may take. */
export function failedCalls(failed: object, seq: string): readonly Call[] {
  const tool = methods(failed)
  const bad = filters(FAILED_TEXTS)
  const settle = { effect: 'send', as: 'done' }
  return [
    ...['discardAll', 'retryAll'].flatMap((name) => [
      ...calls(name, tool(name), [], [...bad, ...SAY_NOTHING]),
      ...calls(name, tool(name), [{ all: true }], BULK),
      ...calls(
        name,
        tool(name),
        [{ all: true }],
        BY.map((by) => ({ by })),
      ),
    ]),
    ...['list', 'count', 'groups'].flatMap((name) => calls(name, tool(name), [], bad)),
    ...calls('list', tool('list'), [], PAGES),
    ...['get', 'retry', 'discard', 'effects'].flatMap((name) => calls(name, tool(name), [], SEQS)),
    ...['retry', 'discard'].flatMap((name) => calls(name, tool(name), [seq], BY)),
    ...calls(
      'settle',
      tool('settle'),
      [seq],
      [
        ...NO_OBJECTS,
        { effect: 'send' },
        { ...settle, as: null },
        { ...settle, effect: null },
        { ...settle, effect: '' },
        { ...settle, by: null },
        { ...settle, all: true },
      ],
    ),
  ]
}

/** The same for everything else that people have; `seq` is the number of a failed message. */
export function toolCalls(hapax: object, seq: string): readonly Call[] {
  const part = (name: string): ((tool: string) => Tool) => methods((hapax as Record<string, object>)[name] as object)
  const whole = methods(hapax)
  const held = { origin: 'inbox', scope: 'billing', key: 'k' }
  const clean = { consumer: 'billing', olderThanMs: 1_000 }
  return [
    ...failedCalls((hapax as { failed: object }).failed, seq),
    ...calls(
      'edit',
      part('failed')('edit'),
      [seq, {}],
      [...NO_OBJECTS, { id: '' }, { id: null }, { type: '' }, { type: null }, { by: null }],
    ),
    ...calls(
      'republishAll',
      part('sent')('republishAll'),
      [],
      [...filters(['relay', 'type']), ...SAY_NOTHING.slice(0, 2)],
    ),
    ...calls('republishAll', part('sent')('republishAll'), [{ all: true }], BULK),
    ...['list', 'count'].flatMap((name) => calls(`sent.${name}`, part('sent')(name), [], filters(['relay', 'type']))),
    ...calls('sent.list', part('sent')('list'), [], PAGES),
    ...calls('republish', part('sent')('republish'), [], SEQS),
    ...calls('keys.list', part('keys')('list'), [], [...NO_OBJECTS, { limit: null }, { consumer: 'billing' }]),
    ...calls(
      'release',
      part('keys')('release'),
      [],
      [
        ...NO_OBJECTS,
        ...NO_TEXTS.flatMap((bad) => [
          { ...held, scope: bad },
          { ...held, key: bad },
          { ...held, origin: bad },
        ]),
        { ...held, origin: undefined },
      ],
    ),
    ...calls('consumers.remove', part('consumers')('remove'), [], [undefined, ...NO_TEXTS]),
    ...calls('consumers.remove', part('consumers')('remove'), ['billing'], BY),
    ...calls('relays.move', part('relays')('move'), [], [undefined, ...NO_TEXTS, ...NO_NAMES]),
    ...calls('relays.move', part('relays')('move'), ['default'], [undefined, ...NO_TEXTS, ...NO_NAMES]),
    ...calls(
      'cleanup',
      whole('cleanup'),
      [],
      [
        undefined,
        ...NO_OBJECTS,
        ...NO_TEXTS.map((consumer) => ({ ...clean, consumer })),
        ...NO_AGES.map((olderThanMs) => ({ ...clean, olderThanMs })),
        ...[null, 0, 'false'].map((dryRun) => ({ ...clean, dryRun })),
        { ...clean, signal: null },
        { ...clean, onProgress: null },
        { ...clean, all: true },
      ],
    ),
    ...explainCalls(hapax),
  ]
}

/** The same for `explain`. */
export function explainCalls(hapax: object): readonly Call[] {
  const explain = methods(hapax)('explain')
  return [...calls('explain', explain, [], [undefined, ...NO_TEXTS]), ...calls('explain', explain, ['a'], NO_TEXTS)]
}

function methods(of: object): (name: string) => Tool {
  return (name) => (of as Record<string, Tool>)[name]?.bind(of) as Tool
}

/** Each of them is refused, in one sentence. */
export async function assertRefused(all: readonly Call[]): Promise<void> {
  const taken: string[] = []
  for (const [name, call] of all) {
    const error: unknown = await Promise.resolve()
      .then(call)
      .then(
        () => undefined,
        (thrown: unknown) => thrown,
      )
    if (!isHapaxError(error, 'invalid-option') || !/^expected [^\n]+, got [^\n]+$/.test(error.message)) {
      taken.push(`${name}: ${error === undefined ? 'taken' : String(error)}`)
    }
  }
  assert.deepEqual(taken, [])
}
