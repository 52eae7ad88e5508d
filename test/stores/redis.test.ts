import type { RedisClient } from 'hapax/redis'
import { Redis } from 'ioredis'
import { createClient, RESP_TYPES } from 'redis'
import { afterAll, beforeAll, describe } from 'vitest'
import { redisHarness } from '../../src/conformance/stores/redis.ts'
import { runLeaseCases } from '../support/lease-suite.ts'
import { losingAnswers } from '../support/redis-stores.ts'
import { requireServer } from '../support/servers.ts'

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

describe('through ioredis, which gives numbers as texts', () => {
  const client = new Redis(url, { stringNumbers: true })
  afterAll(() => client.disconnect())
  runLeaseCases(redisHarness(() => client))
})

describe.each([2, 3] as const)('through redis by RESP %i, which gives bytes, and numbers as texts', (RESP) => {
  const { BLOB_STRING, SIMPLE_STRING, NUMBER, DOUBLE, MAP, SET } = RESP_TYPES
  const texts = { [BLOB_STRING]: Buffer, [SIMPLE_STRING]: Buffer, [NUMBER]: String, [DOUBLE]: String }
  const typeMapping = { ...texts, [MAP]: Map, [SET]: Set }
  const client = createClient({ url, RESP, commandOptions: { typeMapping } })
  beforeAll(async () => {
    await client.connect()
  })
  afterAll(() => client.destroy())
  runLeaseCases(redisHarness(() => client as unknown as RedisClient))
})

describe('B17: when the first answer to every command is lost', () => {
  const client = new Redis(url)
  afterAll(() => client.disconnect())
  runLeaseCases(redisHarness(() => losingAnswers(client)))
})
