/**
 * Text as a database can hold it: PostgreSQL refuses U+0000. Texts with it, and those that look escaped, are marked with
 * U+0001 and escaped; all others, practically every text, stay as they are.
 */
export function encodeText(text: string): string {
  if (text.charCodeAt(0) !== 1 && !text.includes('\0')) return text
  return `\u0001${text.replaceAll('%', '%25').replaceAll('\0', '%00')}`
}

/** The text that `encodeText` was given. */
export function decodeText(stored: string): string {
  if (stored.charCodeAt(0) !== 1) return stored
  return stored.slice(1).replaceAll('%00', '\0').replaceAll('%25', '%')
}
