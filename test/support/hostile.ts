import { isHapaxError } from 'hapax'
import { expect } from 'vitest'

/** Would end a statement if it were concatenated into one. */
const SQL = `x'; drop table victims; --`

/** Values that most options must refuse, by name; some kinds of options accept some of them. */
export const HOSTILE: Readonly<Record<string, unknown>> = {
  null: null,
  NaN: Number.NaN,
  negative: -1,
  zero: 0,
  fraction: 0.5,
  infinity: Number.POSITIVE_INFINITY,
  huge: 1e300,
  bigint: 10n,
  true: true,
  'empty text': '',
  digits: '5',
  SQL,
  quotes: `a"b'c\`d\\e`,
  NUL: 'a\0b',
  'line feed': 'a\nb',
  'C1 control': 'a\u009bb',
  'turned direction': 'a\u202eb',
  'lone surrogate': '\ud800',
  ['__proto__']: '__proto__',
  constructor: 'constructor',
  'long text': 'x'.repeat(5_000),
  'empty list': [],
  list: ['a'],
  'empty object': {},
  'object that turns into SQL': { toString: () => SQL, valueOf: () => SQL, [Symbol.toPrimitive]: () => SQL },
  'own __proto__': JSON.parse('{"__proto__": {"x": 1}}'),
  function: () => SQL,
  symbol: Symbol('x'),
  'invalid date': new Date(Number.NaN),
  promise: Promise.resolve({}),
}

const TEXTS = ['digits', 'SQL', 'quotes', '__proto__', 'constructor']
const ANY_TEXTS = [...TEXTS, 'NUL', 'line feed', 'C1 control', 'turned direction']
const OBJECTS = ['empty object', 'object that turns into SQL', 'own __proto__']

/** Kinds of options, and which of these values each kind accepts. */
const KINDS = {
  count: [],
  word: [],
  'plain name': ['__proto__', 'constructor'],
  flag: ['true'],
  'number from 0': ['zero', 'fraction'],
  'whole number from 0': ['zero'],
  /** A name that people read: without control characters. */
  name: TEXTS,
  text: ANY_TEXTS,
  'text or function': [...ANY_TEXTS, 'function'],
  function: ['function'],
  object: OBJECTS,
} as const satisfies Readonly<Record<string, readonly string[]>>

/** How an option is tested: a valid value, and its kind or the hostile values it accepts. */
export interface Tried {
  readonly fine: unknown
  readonly kind: keyof typeof KINDS
  readonly also?: readonly string[]
  readonly not?: readonly string[]
}

/** An entry point with options. */
export interface Entry {
  readonly name: string
  /** Calls it; returns its promise if there is one. */
  readonly call: (options: never) => unknown
  /** Required options, which are not tested themselves. */
  readonly base?: object
  readonly options: Readonly<Record<string, Tried>>
  /** The options stand for positional arguments, so there is no options object to test as a whole. */
  readonly positional?: true
  /** Codes that it may refuse with, besides `invalid-option`. */
  readonly codes?: readonly string[]
}

/** The verdict on a call: its error in a sentence, or that it was accepted. */
export async function said(call: () => unknown, codes: readonly string[] = []): Promise<string> {
  try {
    await call()
    return 'taken'
  } catch (error) {
    const code = isHapaxError(error) ? error.code : undefined
    if (code !== 'invalid-option' && !codes.includes(code ?? '')) return `threw ${String(error)}`
    return /^expected [^\n]{1,600}, got [^\n]{1,200}$/.test((error as Error).message)
      ? 'refused'
      : `threw ${String(error)}`
  }
}

/** Tries every option of an entry point with every hostile value, and its options as a whole. */
async function wrongAbout({ call, base = {}, options, positional, codes }: Entry): Promise<readonly string[]> {
  const wrong: string[] = []
  const note = async (what: string, wanted: string, given: unknown): Promise<void> => {
    const got = await said(() => call(given as never), codes)
    if (got !== wanted) wrong.push(`${what}: ${got}, not ${wanted}`)
  }
  for (const [name, { fine, kind, also = [], not = [] }] of Object.entries(options)) {
    const takes: readonly string[] = [...KINDS[kind], ...also].filter((each) => !not.includes(each))
    await note(`${name} as it should be`, 'taken', { ...base, [name]: fine })
    await note(`${name}: undefined`, Object.hasOwn(base, name) ? 'refused' : 'taken', { ...base, [name]: undefined })
    for (const [what, value] of Object.entries(HOSTILE)) {
      await note(`${name}: ${what}`, takes.includes(what) ? 'taken' : 'refused', { ...base, [name]: value })
    }
  }
  if (positional) return wrong
  await note('an option that does not exist', 'refused', { ...base, unknownOption: 1 })
  await note(
    'an own __proto__',
    'refused',
    Object.defineProperty({ ...base }, '__proto__', { value: {}, enumerable: true }),
  )
  for (const what of [
    'null',
    'digits',
    'list',
    'empty list',
    'function',
    'invalid date',
    'promise',
    'symbol',
    'true',
  ]) {
    await note(`${what} for options`, 'refused', HOSTILE[what])
  }
  return wrong
}

/** Expects every option to be checked. */
export async function expectChecked(entry: Entry): Promise<void> {
  expect(await wrongAbout(entry)).toEqual([])
}
