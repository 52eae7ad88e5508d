import type { Store } from '../contracts/index.ts'

/** Whether another process of a consumer handles a type by name. */
export type Elsewhere = (type: string) => Promise<boolean>

/** Asks the store once, however many types are asked for: most messages of a topic may be of such types. */
export function typesElsewhere(store: Pick<Store<never>, 'subscriptions'>, consumer: string): Elsewhere {
  let asked: Promise<ReadonlySet<string>> | undefined
  return async (type) => {
    asked ??= recordedTypes(store, consumer)
    return (await asked).has(type)
  }
}

async function recordedTypes(
  { subscriptions }: Pick<Store<never>, 'subscriptions'>,
  name: string,
): Promise<ReadonlySet<string>> {
  const known = await subscriptions.list()
  return new Set(known.filter(({ consumer }) => consumer === name).map(({ type }) => type))
}
