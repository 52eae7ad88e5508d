import { randomUUID } from 'node:crypto'
import type { ClaimStore } from 'hapax/contracts'
import { type IoredisClient, type RedisClient, type RedisOptions, redis } from 'hapax/redis'
import type { ClaimHarness } from 'hapax/testing'

/** Lease stores through clients that `client` makes, each place under a prefix of its own. */
export function redisHarness(client: () => RedisClient): ClaimHarness {
  return {
    open: async () => {
      const options: RedisOptions = { client: client(), prefix: freshPrefix(), timeoutMs: 20_000 }
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

export function freshPrefix(): string {
  return `test-${randomUUID()}:`
}

/** A client on which every command is executed but loses its reply the first time. */
export function losingAnswers(client: IoredisClient): IoredisClient {
  const lost = new Set<string>()
  return {
    call: async (command, ...words) => {
      const answer = await client.call(command, ...words)
      const what = JSON.stringify([command, ...words])
      if (lost.delete(what)) return answer
      lost.add(what)
      throw new Error('Connection is closed.')
    },
  }
}
