/** Methods to put in the place of those of a store, part by part. */
export type Alterations<Store> = { readonly [Part in keyof Store]?: Partial<Store[Part]> }

/** The same store, with some methods of its parts replaced. */
export function altered<Store extends object>(store: Store, parts: Alterations<Store>): Store {
  const replaced: Record<string, unknown> = {}
  for (const [name, methods] of Object.entries<object | undefined>(parts)) {
    const part: unknown = Reflect.get(store, name)
    if (typeof part === 'object' && part !== null) replaced[name] = overlaid(part, methods ?? {})
  }
  return overlaid(store, replaced)
}

/** The same object, with some properties replaced. Methods that stay are bound to it. */
function overlaid<Whole extends object>(whole: Whole, replaced: object): Whole {
  return new Proxy(whole, {
    get: (target, name) => {
      if (Object.hasOwn(replaced, name)) return Reflect.get(replaced, name)
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
