import { afterAll, beforeAll, describe } from 'vitest'
import { type NatsCluster, natsCluster } from '../../support/clusters/nats.ts'
import { brokerStories, noStory } from './stories.ts'

describe.skipIf(noStory('nats'))('three NATS servers', () => {
  let cluster: NatsCluster
  beforeAll(async () => {
    cluster = await natsCluster()
  })
  afterAll(() => cluster?.[Symbol.asyncDispose]())

  brokerStories(() => ({ broker: 'nats', urls: cluster.urls, cluster }), { single: false })
})
