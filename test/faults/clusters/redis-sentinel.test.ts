import { afterAll, beforeAll, describe } from 'vitest'
import { type WatchedRedis, watchedRedis } from '../../support/clusters/redis-sentinel.ts'
import { brokerStories, noStory } from './stories.ts'

describe.skipIf(noStory('redis-streams'))('Redis with Sentinel', () => {
  let cluster: WatchedRedis
  beforeAll(async () => {
    cluster = await watchedRedis()
  })
  afterAll(() => cluster?.[Symbol.asyncDispose]())

  brokerStories(() => ({ broker: 'redis-sentinel', urls: cluster.urls, cluster }), { single: false })
})
