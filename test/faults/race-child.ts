import { createHapax, defineMessage, type IncomingMessage, silentLogger } from 'hapax'
import { job, say, told } from '../support/child.ts'
import { insertEffect, openStore, type Place } from '../support/databases.ts'
import { seeded, shuffled } from '../support/seeded.ts'

/** What one of the racing processes has to do. */
export interface RaceJob {
  readonly place: Place
  readonly seed: number
  readonly messages: number
  readonly inFlight: number
  readonly group: number
}

/** What it says: that it is ready, then how its deliveries ended. */
export interface RaceReport {
  readonly counts: Readonly<Record<string, number>>
  readonly redeliveries: number
}

const { place, seed, messages, inFlight, group } = job<RaceJob>()
const hapax = createHapax({
  store: await openStore(place, { max: inFlight }),
  source: '/race',
  logger: silentLogger,
})
const consumer = hapax
  .consumer('race', { group: { size: group }, concurrency: inFlight, lockTimeoutMs: 250 })
  .on(defineMessage<number>('race'), async (number, { tx }) => {
    await tx.query(insertEffect(place, 'race', `m-${number}`))
  })

const deliveries = shuffled(
  Array.from({ length: messages }, (_, index): IncomingMessage => {
    return { id: `m-${index}`, source: '/race', type: 'race', data: index }
  }),
  seeded(seed),
)
const counts: Record<string, number> = {}
let redeliveries = 0

await say({ counts, redeliveries })
await told()
await Promise.all(Array.from({ length: inFlight }, deliver))
await say({ counts, redeliveries })
await hapax.close()
process.disconnect()

/** Does what a broker does: a delivery that is not acknowledged comes again. */
async function deliver(): Promise<void> {
  while (deliveries.length > 0) {
    const batch = deliveries.splice(0, group)
    const outcomes = await consumer.handleMany(batch)
    for (const [index, { status, ack }] of outcomes.entries()) {
      if (ack) counts[status] = (counts[status] ?? 0) + 1
      else {
        redeliveries += 1
        deliveries.push(batch[index] as IncomingMessage)
      }
    }
  }
}
