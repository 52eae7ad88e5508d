// The header Idempotency-Key, as the expired draft-ietf-httpapi-idempotency-key-header-07 has it: a string in quotes. Most clients send
// the key without them; both mean the same.

/** The header with the key. */
export const KEY_HEADER = 'idempotency-key'

/** What the header says: a key, none, or why it is none. */
export type ParsedKey =
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'missing' }
  | { readonly kind: 'invalid'; readonly detail: string }

/** Reads the key out of the headers of a request. */
export function parseKey(headers: Headers, maxLength: number): ParsedKey {
  const value = headers.get(KEY_HEADER)
  if (value === null) return { kind: 'missing' }
  // Field values are bytes: what lies outside ASCII could be read in more than one way.
  if (!PRINTABLE.test(value)) return invalid('contain printable ASCII characters only')
  const key = value.startsWith('"') ? unquoted(value) : bare(value)
  if (typeof key !== 'string') return key
  if (key === '') return invalid('not be empty')
  if (key.length > maxLength) return invalid(`be at most ${maxLength} characters long`)
  return { kind: 'key', key }
}

const PRINTABLE = /^[\x20-\x7e]*$/

function bare(value: string): string | ParsedKey {
  if (value.includes(',')) return invalid(ONCE)
  if (value.includes(';')) return invalid(ALONE)
  return value.includes('"') ? invalid('have its quotation marks at both ends, or none') : value
}

function unquoted(value: string): string | ParsedKey {
  const string = QUOTED.exec(value)
  if (string === null) return invalid('end with a quotation mark, and have \\ before " and \\ inside')
  const rest = value.slice(string[0].length).trimStart()
  if (rest.startsWith(',')) return invalid(ONCE)
  if (rest !== '') return invalid(ALONE)
  return (string[1] ?? '').replaceAll(ESCAPED, '$1')
}

/** A string of RFC 9651: only a quotation mark and a backslash are escaped. */
const QUOTED = /^"((?:[^"\\]|\\["\\])*)"/
const ESCAPED = /\\(["\\])/g

const ONCE = 'be sent once, with one key'
const ALONE = 'be a key without parameters'

function invalid(what: string): ParsedKey {
  return { kind: 'invalid', detail: `Idempotency-Key has to ${what}.` }
}
