import { randomUUID } from 'node:crypto'
import type { ClaimStore } from '../../contracts/index.ts'
import { type RedisClient, type RedisOptions, redis } from '../../stores/redis/index.ts'
import type { ClaimHarness } from '../../testing/index.ts'

/** Lease stores through clients that `client` makes, each place under a prefix of its own, which begins with `name`. */
export function redisHarness(client: () => RedisClient, name = 'test'): ClaimHarness {
  return {
    open: async () => {
      const options: RedisOptions = { client: client(), prefix: `${name}-${randomUUID()}:`, timeoutMs: 20_000 }
      const stores: ClaimStore[] = []
      const another = async (): Promise<ClaimStore> => {
        const store = redis(options)
        stores.push(store)
        return store
      }
      const close = async (): Promise<void> => {
        await Promise.all(stores.map((store) => store.close()))
      }
      return { store: await another(), another, close }
    },
  }
}
