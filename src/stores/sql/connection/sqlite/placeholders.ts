/** Where the parameters of a statement with numbered ones stand, from left to right. */
export interface Places {
  /** The index of the caller's parameter at each place. */
  readonly order: readonly number[]
  /** How many parameters the caller gives. */
  readonly count: number
}

/** What may contain a question mark that is no parameter; or a parameter. */
const TOKEN = /'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|\?(\d*)/g

/** The highest number that SQLite takes. */
const MAX_NUMBER = 32_766

/**
 * Writes `?1` as `?`: before Node.js 22.20 and 24.7, `node:sqlite` could not bind numbered parameters by position. Binding them by name
 * works everywhere as well, and takes twice as long.
 */
export function withoutNumbers(text: string): { text: string; places: Places | undefined } {
  if (!/\?\d/.test(text)) return { text, places: undefined }
  const order: number[] = []
  let count = 0
  const plain = text.replace(TOKEN, (token: string, digits: string | undefined) => {
    if (digits === undefined) return token
    // A bare one has the number after the highest so far.
    const number = digits === '' ? count + 1 : Number(digits)
    // Left as it is, for SQLite to refuse.
    if (number < 1 || number > MAX_NUMBER) return token
    count = Math.max(count, number)
    order.push(number - 1)
    return '?'
  })
  return { text: plain, places: { order, count } }
}

/** The values from left to right. A missing one is null, as it is without numbers; one too many goes last, where SQLite refuses it. */
export function placed<T>({ order, count }: Places, values: readonly T[]): (T | null | undefined)[] {
  const inOrder = order.map((index) => (index < values.length ? values[index] : null))
  return values.length > count ? [...inOrder, ...values.slice(count)] : inOrder
}
