/** How deep JSON from outside may be nested: deeper ones exhaust the stack of whoever walks through them. */
export const MAX_DEPTH = 64

/** Parses JSON from outside. Throws for what is nested too deeply, and for names that would reach into the prototype. */
export function parseJson(text: string, maxDepth: number = MAX_DEPTH): unknown {
  // Whoever has so few characters cannot be that deep.
  if (text.length > 2 * maxDepth && depthOf(text) > maxDepth) {
    throw new SyntaxError(`nested deeper than ${maxDepth} levels`)
  }
  const value: unknown = JSON.parse(text)
  // Most texts have neither the name nor an escape that could spell it.
  if (SUSPICIOUS.test(text)) refusePrototypes(value)
  return value
}

const SUSPICIOUS = /__proto__|\\u00/

/** Counts brackets outside of strings. */
function depthOf(text: string): number {
  let depth = 0
  let deepest = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfString(text, at)
    else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      depth += 1
      if (depth > deepest) deepest = depth
    } else if (code === CLOSE_LIST || code === CLOSE_OBJECT) depth -= 1
  }
  return deepest
}

function endOfString(text: string, start: number): number {
  let at = start + 1
  for (; at < text.length && text.charCodeAt(at) !== QUOTE; at++) if (text.charCodeAt(at) === BACKSLASH) at += 1
  return at
}

const QUOTE = 34
const BACKSLASH = 92
const OPEN_LIST = 91
const CLOSE_LIST = 93
const OPEN_OBJECT = 123
const CLOSE_OBJECT = 125

/** A copy of such a value (an assignment, a merge) would change the prototype of the copy. */
function refusePrototypes(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  if (Object.hasOwn(value, '__proto__')) throw new SyntaxError(`a field is called '__proto__'`)
  for (const each of Object.values(value)) refusePrototypes(each)
}
