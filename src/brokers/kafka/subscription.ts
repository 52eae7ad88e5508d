import { HapaxError, systemClock, within } from '../../base/index.ts'
import type { Address, Reader, Subscription } from '../../contracts/index.ts'
import { brokerError } from './errors.ts'
import type { From } from './reading/positions.ts'
import { KafkaReader, type ReaderClients } from './reading/reader.ts'

/** What a subscription needs to know. */
export interface GroupSettings {
  readonly group: string
  readonly topics: readonly string[]
  readonly from: From
  readonly commitIntervalMs: number
  readonly horizonMs: number | undefined
  clients(): Promise<ReaderClients>
}

/** Reads topics as a member of a group. */
export class KafkaSubscription implements Subscription {
  readonly name: string
  readonly address: Address
  readonly features: Subscription['features']
  readonly #settings: GroupSettings

  constructor(settings: GroupSettings) {
    this.#settings = settings
    this.name = `kafka group ${settings.group} of ${settings.topics.join(', ')}`
    this.address = { system: 'kafka', name: settings.topics.join(',') }
    this.features = {
      // A key is in one partition, and a partition has one member at a time. During a rebalance two members may briefly process the
      // same messages, each in order.
      ordersKeys: true,
      // Kafka has no such mark. hapax marks messages that another member may have had before the assignment.
      marksRedelivered: false,
      horizonMs: settings.horizonMs,
      limitsRejects: false,
    }
  }

  async open(options: Parameters<Subscription['open']>[0]): Promise<Reader> {
    const { topics, from, commitIntervalMs, horizonMs } = this.#settings
    const reader = new KafkaReader(
      { name: this.name, topics, from, commitIntervalMs, horizonMs, maxWaitMs: MAX_WAIT_MS, ...options },
      await this.#settings.clients(),
    )
    try {
      await within(systemClock, OPEN_MS, reader.open(), () => {
        throw new HapaxError('broker-timeout', `${this.name} could not be joined within ${OPEN_MS} ms`)
      })
      return reader
    } catch (error) {
      await reader.close()
      throw brokerError(`${this.name} could not be joined`, error)
    }
  }
}

/** How long a broker may wait for messages before it answers a fetch. */
const MAX_WAIT_MS = 500
/** A member that died holds up the others until its session ends. */
const OPEN_MS = 28_000
