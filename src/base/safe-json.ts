// The C1 controls, the marks that turn the direction of text, and the invisible ones: JSON.stringify lets them pass.
const UNSAFE_IN_JSON = /[\u007f-\u009f\u2028\u2029\p{Cf}]/gu

/** JSON that is safe on a terminal and in a log: nothing in it can move the cursor, forge a line or turn the text around. */
export function safeJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replaceAll(UNSAFE_IN_JSON, unicodeEscapes)
}

/** The escapes of a character as JSON and JavaScript write them. */
export function unicodeEscapes(character: string): string {
  let escapes = ''
  for (let index = 0; index < character.length; index++) {
    escapes += `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`
  }
  return escapes
}
