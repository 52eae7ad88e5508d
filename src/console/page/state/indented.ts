import { tokens } from './tokens.ts'

/** A larger text is not indented: the page would become slow. */
const MOST_CHARACTERS = 2_000_000
/** Spaces grow with the depth, so that a hostile text could become very large. */
const [MOST_DEPTH, MOST_INDENTED] = [100, 5_000_000]

/** A text that may be JSON. */
interface Given {
  readonly text: string
  readonly contentType: string | null
  /** Whether this is all of it. */
  readonly whole: boolean
}

/**
 * JSON with each value on its own line; undefined: the text is no JSON, or too large. Only white space between values is changed: numbers
 * keep their digits, and names their order.
 */
export function indented({ text, contentType, whole }: Given): string | undefined {
  if (text.length > MOST_CHARACTERS || !/^\s*[[{]/.test(text)) return undefined
  const isJson = whole ? parses(text) : /\bjson\b/i.test(contentType ?? '')
  return isJson ? brokenIntoLines(text) : undefined
}

function parses(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function brokenIntoLines(text: string): string | undefined {
  const parts: string[] = []
  let [depth, length] = [0, 0]
  const add = (part: string): void => {
    parts.push(part)
    length += part.length
  }
  const line = (): void => add(`\n${'  '.repeat(depth)}`)
  let opened = false
  for (const token of tokens(text)) {
    const characters = token.kind === 'other' ? token.text.replaceAll(/\s/g, '') : [token.text]
    for (const each of characters) {
      const closes = token.kind === 'other' && (each === '}' || each === ']')
      if (closes) depth = Math.max(0, depth - 1)
      // An empty object stays in its line.
      if (opened !== closes) line()
      add(each)
      opened = token.kind === 'other' && (each === '{' || each === '[')
      if (opened) depth += 1
      if (token.kind === 'other' && each === ',') line()
      if (token.kind === 'other' && each === ':') add(' ')
      if (depth > MOST_DEPTH || length > MOST_INDENTED) return undefined
    }
  }
  return parts.join('')
}

/** Consecutive lines of an indented text: those of an object or a list are folded together. */
export type Fold = string | { readonly first: string; readonly inner: readonly Fold[]; readonly last: string }

/** The lines of an indented text as a tree. One that was cut off has unclosed objects, which end with it. */
export function foldsOf(text: string): readonly Fold[] {
  const root: Fold[] = []
  const open: { first: string; inner: Fold[]; into: Fold[] }[] = []
  const close = (last: string): void => {
    const { first, inner, into } = open.pop() ?? { first: '', inner: [], into: root }
    into.push({ first, inner, last })
  }
  for (const line of text.split('\n')) {
    const into = open.at(-1)?.inner ?? root
    if (/[{[]$/.test(line)) open.push({ first: line, inner: [], into })
    else if (/^\s*[\]}],?$/.test(line) && open.length > 0) close(line)
    else into.push(line)
  }
  while (open.length > 0) close('')
  return root
}
