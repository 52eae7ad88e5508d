import { appendFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { createHapax, type Destination, silentLogger } from 'hapax'
import type { Confirmation, OutgoingMessage } from 'hapax/contracts'
import { answering } from '../../src/testing/promised.ts'
import { job, say, told } from '../support/child.ts'
import { openStore, type Place } from '../support/databases.ts'

/** A process that relays into a file: a line per message that arrived, in the order of arrival over all processes. */
export interface RelayJob {
  readonly place: Place
  readonly arrivals: string
  readonly takeoverMs: number
}

const { place, arrivals, takeoverMs } = job<RelayJob>()

/** A broker that now and then does not take a message. */
const destination: Destination = {
  name: 'a file',
  features: { keepsOrder: false },
  prepare: async () => {},
  publish: answering(arrive),
  close: async () => {},
}

async function arrive({ id, key }: OutgoingMessage): Promise<Confirmation> {
  await delay(Math.random() * 5)
  if (Math.random() < 0.01) return { status: 'failed', error: new Error('nacked') }
  appendFileSync(arrivals, `${key} ${id}\n`)
  await delay(Math.random() * 5)
  return { status: 'confirmed' }
}

const hapax = createHapax({ store: await openStore(place), source: '/relays', logger: silentLogger })
const worker = hapax.worker({ relay: destination, takeoverMs, pollMs: 50 })
await worker.start()
await say({ said: 'started' })
await told()
await worker.stop()
await hapax.close()
process.disconnect()
