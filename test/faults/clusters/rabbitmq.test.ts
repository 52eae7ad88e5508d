import { execFileSync, spawnSync } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../../src/testing/wait.ts'
import { openNetwork } from '../../support/clusters/network.ts'
import { control, type RabbitmqCluster, rabbitmqCluster } from '../../support/clusters/rabbitmq.ts'
import { brokerStories, noStory } from './stories.ts'

describe.skipIf(noStory('rabbitmq'))('three RabbitMQ nodes', () => {
  let cluster: RabbitmqCluster
  beforeAll(async () => {
    cluster = await rabbitmqCluster()
  }, 600_000)
  afterAll(() => cluster?.[Symbol.asyncDispose]())

  brokerStories(() => ({ broker: 'rabbitmq', urls: cluster.urls, cluster }), { single: true })
})

describe.skipIf(noStory('rabbitmq'))('the tests of RabbitMQ nodes', () => {
  it('leave no daemon behind where they ask a node', async () => {
    await using network = await openNetwork(1)
    const [host] = network.hosts
    if (host === undefined) throw new Error('expected a host')
    const { program, args, env } = control(host, 'node().')
    const { status } = spawnSync('ip', ['netns', 'exec', host.namespace, program, ...args], { env })
    // Nobody is there to be asked.
    expect(status).not.toBe(0)
    const left = (): string => execFileSync('ip', ['netns', 'pids', host.namespace], { encoding: 'utf8' })
    await until(() => left() === '', 'no process is left')
  })
})
