/** One difference between two JSON values. */
export interface JsonChange {
  readonly mark: '+' | '-' | '~'
  readonly text: string
}

/** The differences between two JSON values, by path. `undefined` stands for an absent value. */
export function changes(old: unknown, now: unknown, path: string = ''): readonly JsonChange[] {
  if (isObject(old) && isObject(now) && Array.isArray(old) === Array.isArray(now)) {
    const names = new Set([...Object.keys(old), ...Object.keys(now)])
    return [...names].flatMap((name) => changes(own(old, name), own(now, name), path === '' ? name : `${path}.${name}`))
  }
  const [before, after] = [JSON.stringify(old), JSON.stringify(now)]
  if (before === after) return []
  const place = path === '' ? 'data' : path
  if (before === undefined) return [{ mark: '+', text: `${place}: ${after}` }]
  if (after === undefined) return [{ mark: '-', text: `${place}: ${before}` }]
  return [{ mark: '~', text: `${place}: ${before} -> ${after}` }]
}

/** A number that keeps its digits (`exactJson`) is an object, too. */
function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !isRawJSON(value)
}

// Newer than the type definitions.
const isRawJSON: (value: unknown) => boolean = Reflect.get(JSON, 'isRawJSON')

/** Own fields only: `__proto__` as a field of the value is not the prototype. */
function own(value: Record<string, unknown>, name: string): unknown {
  return Object.hasOwn(value, name) ? value[name] : undefined
}
