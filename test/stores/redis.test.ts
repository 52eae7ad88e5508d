import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { runLeaseCases } from '../support/lease-suite.ts'
import { losingAnswers, redisHarness } from '../support/redis-stores.ts'
import { requireServer, withoutRedis } from '../support/servers.ts'

const left = withoutRedis()

if (left !== undefined) it('keeps what a lease store promises', (context) => context.skip(left))
else {
  const url = requireServer('redis')

  describe('through ioredis', () => {
    const client = new Redis(url)
    afterAll(() => client.disconnect())
    runLeaseCases(redisHarness(() => client))
  })

  describe('through redis', () => {
    const client = createClient({ url })
    beforeAll(async () => {
      await client.connect()
    })
    afterAll(() => client.destroy())
    runLeaseCases(redisHarness(() => client))
  })

  describe('B17: when the first answer to every command is lost', () => {
    const client = new Redis(url)
    afterAll(() => client.disconnect())
    runLeaseCases(redisHarness(() => losingAnswers(client)))
  })
}
