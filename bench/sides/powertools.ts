import { load } from './peers.ts'

interface Client {
  connect(): Promise<Client>
  destroy(): void
}

interface Powertools {
  makeIdempotent<T>(work: (value: T) => Promise<unknown>, options: object): (value: T) => Promise<unknown>
  readonly IdempotencyConfig: new (options: object) => { registerLambdaContext(context: object): void }
}

/** A function that AWS Powertools makes idempotent by the id of its argument, on this Redis. */
export async function powertools<T extends { readonly id: string }>(
  url: string,
  work: (value: T) => Promise<unknown>,
): Promise<{ readonly handle: (value: T) => Promise<unknown>; close(): void }> {
  const { createClient } = await load<{ createClient(options: object): Client }>('@redis/client')
  const { makeIdempotent, IdempotencyConfig } = await load<Powertools>('@aws-lambda-powertools/idempotency')
  const { CachePersistenceLayer } = await load<{ CachePersistenceLayer: new (options: object) => object }>(
    '@aws-lambda-powertools/idempotency/cache',
  )
  const client = await createClient({ url }).connect()
  const config = new IdempotencyConfig({ eventKeyJmesPath: 'id' })
  // Without one it complains at every call that it does not know how much time is left.
  config.registerLambdaContext({ getRemainingTimeInMillis: () => 60_000 })
  const handle = makeIdempotent(work, { persistenceStore: new CachePersistenceLayer({ client }), config })
  return { handle, close: () => client.destroy() }
}
