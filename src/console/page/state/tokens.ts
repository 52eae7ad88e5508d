/** A part of a text that looks like JSON; `other`: what is between values. */
export interface Token {
  readonly kind: 'name' | 'text' | 'num' | 'word' | 'other'
  readonly text: string
}

/**
 * Takes a text apart by what its parts look like; together they are the text. Nothing is parsed, and text that is no JSON is taken apart,
 * too. Each character is looked at a few times at most: a string that nobody closes is one token, up to the end of its line.
 */
export function tokens(text: string, most: number = Number.POSITIVE_INFINITY): Token[] {
  const found: Token[] = []
  const add = (kind: Token['kind'], from: number, to: number): void => {
    if (to > from) found.push({ kind, text: text.slice(from, to) })
  }
  const value = /"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\b(?:true|false|null)\b/g
  let end = 0
  for (let start = value.exec(text); start !== null && found.length < most; start = value.exec(text)) {
    const from = start.index
    add('other', end, from)
    end = start[0] === '"' ? stringEnd(text, from + 1) : value.lastIndex
    add(start[0] === '"' ? (isName(text, end) ? 'name' : 'text') : /^[tfn]/.test(start[0]) ? 'word' : 'num', from, end)
    value.lastIndex = end
  }
  add('other', end, text.length)
  return found
}

function stringEnd(text: string, from: number): number {
  const stop = /["\\\n]/g
  stop.lastIndex = from
  for (let found = stop.exec(text); found !== null; found = stop.exec(text)) {
    if (found[0] !== '\\') return found[0] === '"' ? stop.lastIndex : found.index
    stop.lastIndex += 1
  }
  return text.length
}

function isName(text: string, end: number): boolean {
  const next = /\S/g
  next.lastIndex = end
  return next.exec(text)?.[0] === ':'
}

/** JSON in one line, value by value, to be compared. Only for the eye. */
export function brokenUp(text: string): string {
  if (text.includes('\n') || text.length < 60) return text
  return tokens(text)
    .map((token) => (token.kind === 'other' ? token.text.replaceAll(/[{[,]/g, '$&\n') : token.text))
    .join('')
}
