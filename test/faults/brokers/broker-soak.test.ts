import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makePlace } from '../../support/databases.ts'
import { noPrivateServer, type PrivateServer, privateServer } from '../../support/private-server.ts'
import { oneInTest } from '../../support/runs.ts'
import { seed } from '../../support/seeded.ts'
import { testBrokers, testStores } from '../../support/servers.ts'
import { type BrokerPlace, type KilledBroker, serverOf } from './broker-place.ts'
import { type BrokerSoakOptions, type BrokerSoakResult, brokerSoak } from './broker-soak.ts'
import type { FaultKind } from './crew.ts'
import type { Sabotage } from './sabotage.ts'

const full = process.env['HAPAX_TEST_BROKER_SOAK'] === 'full'
const START_MS = 240_000

/** What the page of a broker promises about a confirmed message when the server's process is killed. */
function promiseOf(broker: KilledBroker): string | undefined {
  const page = readFileSync(new URL(`../../../docs/brokers/${broker}.md`, import.meta.url), 'utf8')
  return /^\| the server's process is killed \| ([^|]*)\|/m.exec(page)?.[1]
}

const short: BrokerSoakOptions = {
  seed,
  messages: 1_500,
  keys: 100,
  plainCopies: 0.2,
  publishedCopies: 0,
  brokerKills: 2,
  brokerRestarts: 1,
  consumers: 2,
  consumerKills: 4,
  relays: 2,
  relayKills: 1,
  roundMs: 3_000,
  awayMs: 1_000,
  takeoverMs: 3_000,
  restMs: 300_000,
  // A round ends when the broker has started again, which takes its time on a busy machine.
  deadlineMs: 900_000,
}

const options: BrokerSoakOptions = !full
  ? short
  : {
      ...short,
      messages: 20_000,
      keys: 500,
      brokerKills: 10,
      brokerRestarts: 4,
      consumers: 3,
      consumerKills: 20,
      relayKills: 5,
      roundMs: 8_000,
      awayMs: 3_000,
      takeoverMs: 5_000,
      restMs: 900_000,
      deadlineMs: 2_400_000,
    }

/** Why a broker is left out, or undefined. */
function absence(broker: KilledBroker): string | undefined {
  if (!testBrokers().includes(broker)) return 'HAPAX_TEST_BROKERS leaves it out'
  if (!testStores().includes('postgres')) return 'HAPAX_TEST_STORES leaves PostgreSQL out'
  return noPrivateServer(serverOf[broker])
}

const brokers = ['rabbitmq', 'nats', 'redis-streams'] as const
const present = brokers.filter((broker) => absence(broker) === undefined)
const absent = brokers.filter((broker) => absence(broker) !== undefined)

describe.each([...oneInTest(present, 'nats'), ...absent])('%s: a soak', (broker) => {
  const missing = absence(broker)
  let server: PrivateServer
  beforeAll(async () => {
    server = await privateServer(serverOf[broker])
  }, START_MS)
  afterAll(() => server[Symbol.asyncDispose](), START_MS)

  async function run(size: BrokerSoakOptions, single: boolean): Promise<BrokerSoakResult> {
    await using checker = await makePlace('postgres')
    const name = `soak-${randomBytes(5).toString('hex')}`
    const place: BrokerPlace = { broker, url: server.url, name, single, abandonedMs: size.takeoverMs }
    const result = await brokerSoak({ place: checker.place, broker: place, server }, size)
    show(broker, size, result)
    return result
  }

  it.skipIf(missing)(
    `${options.messages} messages with duplicates take effect once while the broker and its clients are killed (seed ${seed})`,
    {
      timeout: options.deadlineMs + 60_000,
    },
    async () => {
      const result = await run(options, false)
      const { verdict, left, copies, faults } = result
      expect(promiseOf(broker)).toMatch(/^nothing is lost/)
      expect(verdict.lost, JSON.stringify(verdict)).toEqual([])
      expect({ complaints: verdict.complaints, left }).toEqual({ complaints: [], left: [] })
      expect(verdict.effects).toBe(options.messages)
      expect(copies).toBeGreaterThanOrEqual(options.messages * options.plainCopies)
      expect(count(result, 'broker kill')).toBe(options.brokerKills)
      expect(count(result, 'broker restart')).toBe(options.brokerRestarts)
      expect(count(result, 'kill')).toBe(options.consumerKills)
      expect(faults.filter(({ underWay }) => underWay > 0).length).toBeGreaterThan(faults.length / 2)
    },
  )

  // The rig has to notice what it is there for; which broker it is makes no difference.
  const sabotages: [Sabotage, 'lost' | 'doubled'][] = [
    ['acks first', 'lost'],
    ['does not wait for confirms', 'lost'],
    ['doubles effects', 'doubled'],
  ]
  if (full && broker === 'redis-streams')
    it.skipIf(missing).each(sabotages)(
      `is not passed by a rig that %s (seed ${seed})`,
      {
        timeout: short.deadlineMs + 60_000,
      },
      async (sabotage, complaint) => {
        const { verdict } = await run({ ...short, consumerKills: 9, sabotage }, false)
        expect(verdict[complaint].length).toBeGreaterThan(0)
        expect(verdict.complaints).toEqual([`${verdict[complaint].length} ${complaint}`])
      },
    )

  if (full || broker === 'rabbitmq')
    it.skipIf(missing)(
      `one reader at a time keeps the order of every key through all of that (seed ${seed})`,
      {
        timeout: short.deadlineMs + 60_000,
      },
      async () => {
        // A copy that somebody else sends may overtake its original, which is then out of order.
        const copied = { plainCopies: 0, publishedCopies: 0.2 }
        const size = { ...short, ...copied, messages: 1_000, keys: 20, brokerKills: 1, consumerKills: 8 }
        const { verdict, left, copies } = await run(size, true)
        expect({ complaints: verdict.complaints, left }, JSON.stringify(verdict)).toEqual({ complaints: [], left: [] })
        expect(verdict.effects).toBe(size.messages)
        expect(copies).toBeGreaterThanOrEqual(size.messages * 0.19)
      },
    )
})

function count({ faults }: BrokerSoakResult, kind: FaultKind): number {
  return faults.filter((fault) => fault.kind === kind).length
}

function show(broker: KilledBroker, size: BrokerSoakOptions, result: BrokerSoakResult): void {
  const { verdict, copies, workerErrors, seconds, restSeconds, faults } = result
  const underWay = faults.filter(({ kind }) => kind.startsWith('broker')).map((fault) => fault.underWay)
  console.log(
    `soak on ${broker} (seed ${size.seed}): ${size.messages} messages, ` +
      `${count(result, 'broker kill')} kills and ${count(result, 'broker restart')} restarts of the broker, ` +
      `${count(result, 'kill')} kills of consumers, ${count(result, 'relay kill')} of relays, ` +
      `${copies} duplicates sent; lost ${verdict.lost.length}, doubled ${verdict.doubled.length}, ` +
      `in ${seconds.toFixed(0)} s; ${workerErrors} errors of workers, ` +
      `${underWay.join(', ')} messages under way when the broker went, ` +
      `longest silence ${verdict.silenceMs.toFixed(0)} ms, at rest ${restSeconds.toFixed(1)} s after the last fault`,
  )
}
