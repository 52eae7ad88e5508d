import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { noNetwork } from '../../support/clusters/network.ts'
import type { LosingCluster, NodeFault } from '../../support/clusters/nodes.ts'
import { makePlace } from '../../support/databases.ts'
import { noPrivateServer } from '../../support/private-server.ts'
import { seed, seeded, shuffled } from '../../support/seeded.ts'
import { testBrokers, testStores } from '../../support/servers.ts'
import { type BrokerPlace, type KilledBroker, serverOf } from '../brokers/broker-place.ts'
import { clusterStory, type StoryOptions, type StoryResult } from './story.ts'

/** `full`, or the faults that a short story should have, divided by commas. */
const asked = process.env['HAPAX_TEST_CLUSTERS'] ?? ''
const full = asked === 'full'

/** Why the stories of a broker are left out here, or undefined. */
export function noStory(broker: KilledBroker): string | undefined {
  if (!testBrokers().includes(broker)) return 'HAPAX_TEST_BROKERS leaves it out'
  if (!testStores().includes('postgres')) return 'HAPAX_TEST_STORES leaves PostgreSQL out'
  return noNetwork() ?? noPrivateServer(serverOf[broker])
}

/** The cluster of a story. */
interface BrokerCluster {
  readonly broker: BrokerPlace['broker']
  readonly urls: readonly string[]
  readonly cluster: LosingCluster
}

const short: StoryOptions = {
  seed,
  faults: ['kill', 'cut off'],
  messages: 400,
  keys: 40,
  roundMs: 10_000,
  consumers: 1,
  standstillMs: 120_000,
}

const every: readonly NodeFault[] = ['kill', 'cut off', 'split', 'pause']

const long: StoryOptions = {
  ...short,
  faults: shuffled([...every, ...every, ...every], seeded(seed)),
  messages: 6_000,
  keys: 200,
  roundMs: 30_000,
  consumers: 2,
}

/** The stories of a broker: a short one, or with `HAPAX_TEST_CLUSTERS=full` long ones. `single`: whether the short one is about order. */
export function brokerStories(open: () => BrokerCluster, { single }: { readonly single: boolean }): void {
  const faults = every.filter((fault) => asked.split(',').includes(fault))
  const some = faults.length === 0 ? short : { ...short, faults, messages: 200 * faults.length }
  const options = full ? long : some
  for (const ordered of full ? [false, true] : [single])
    it(`${options.messages} messages take effect once${ordered ? ', in order,' : ''} while it loses the node that has them (seed ${seed})`, {
      timeout: 1_800_000,
    }, async ({ annotate }) => {
      const result = await tell(open(), ordered, options)
      const { verdict, left, stuck } = result
      await annotate(shown(open().broker, options, result))
      const { complaints } = verdict
      expect({ complaints, left, stuck }, JSON.stringify(verdict)).toEqual({ complaints: [], left: [], stuck: [] })
      expect(verdict.effects).toBe(options.messages)
      expect(result.faults.map(({ fault }) => fault)).toEqual(options.faults)
    })

  // The rig has to notice what it is there for.
  if (full)
    it(`is not passed by a relay that does not wait for confirms (seed ${seed})`, { timeout: 600_000 }, async () => {
      const { verdict } = await tell(open(), false, {
        ...short,
        standstillMs: 20_000,
        sabotage: 'does not wait for confirms',
      })
      expect(verdict.lost.length).toBeGreaterThan(0)
      expect(verdict.complaints).toEqual([`${verdict.lost.length} lost`])
    })
}

async function tell(
  { broker, urls, cluster }: BrokerCluster,
  single: boolean,
  options: StoryOptions,
): Promise<StoryResult> {
  const [url = '', ...others] = urls
  await using checker = await makePlace('postgres')
  const name = `story-${randomBytes(5).toString('hex')}`
  const place: BrokerPlace = { broker, url, others, name, single, abandonedMs: 5_000 }
  return await clusterStory({ place: checker.place, broker: place, cluster }, options)
}

function shown(broker: string, { messages }: StoryOptions, { verdict, faults, workerErrors }: StoryResult): string {
  const times = faults.map(({ fault, standstillMs }) => `${fault} ${(standstillMs / 1000).toFixed(1)} s`)
  return (
    `${broker}: ${messages} messages, lost ${verdict.lost.length}, doubled ${verdict.doubled.length}, ` +
    `inverted ${verdict.inverted.length}; nothing took effect for: ${times.join(', ')}; ${workerErrors} errors of workers`
  )
}
