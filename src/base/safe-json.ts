// The C1 controls, the marks that turn the direction of text, and the invisible ones: JSON.stringify lets them pass.
const UNSAFE_IN_JSON = /[\u007f-\u009f\u2028\u2029\p{Cf}]/gu

/** JSON that is safe on a terminal and in a log: nothing in it can move the cursor, forge a line or turn the text around. */
export function safeJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replaceAll(UNSAFE_IN_JSON, unicodeEscapes)
}

/**
 * Parses JSON whose numbers JavaScript can hold; undefined: it is no JSON. Throws a `RangeError` that names a number which would become another
 * one.
 */
export function exactJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text, assertExact) }
  } catch (error) {
    if (error instanceof RangeError) throw error
    return undefined
  }
}

/** The third argument is not in all runtimes: then nothing is checked. */
function assertExact(_: string, value: unknown, context?: { readonly source?: string }): unknown {
  const source = context?.source
  if (typeof value !== 'number' || source === undefined) return value
  const same = Number.isFinite(value) && (!/^-?\d+$/.test(source) || BigInt(source) === BigInt(value))
  if (!same) throw new RangeError(`${source.slice(0, 40)} would become ${value}: write it as a string`)
  return value
}

/** The escapes of a character as JSON and JavaScript write them. */
function unicodeEscapes(character: string): string {
  let escapes = ''
  for (let index = 0; index < character.length; index++) {
    escapes += `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`
  }
  return escapes
}

const NAMED: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/**
 * Text that came with a message, safe on a terminal and in a log: control characters, marks that turn the direction of
 * text, invisible characters and lone surrogates are shown as escapes.
 */
export function safe(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu,
    (character) => NAMED[character] ?? unicodeEscapes(character),
  )
}

/** The same for text of several lines. */
export function safeLines(text: string): string[] {
  return text.split(/\r?\n/).map((each) => safe(each.replaceAll('\t', '  ')))
}

/** A word as a shell takes it. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
