import { createHapax, defineMessage, type IncomingMessage, type Outcome, silentLogger } from 'hapax'
import { job, say } from '../support/child.ts'
import { insertEffect, openStore, type Place } from '../support/databases.ts'
import { Seams } from '../support/seams.ts'
import { type Rig, scenarios } from './kill-scenarios.ts'

/** One process of a sweep. Every run has a consumer and types of its own, so that runs can share tables. */
export type KillJob =
  | {
      readonly kind: 'run'
      readonly place: Place
      readonly scenario: string
      readonly run: string
      readonly killAt?: string
    }
  | { readonly kind: 'recover'; readonly place: Place; readonly scenario: string; readonly runs: readonly string[] }

/** What a process says that was not killed. */
export interface KillReport {
  readonly points: readonly string[]
}

interface Data {
  readonly index: number
}

const given = job<KillJob>()
const { place } = given
const scenario = scenarios.find(({ name }) => name === given.scenario)
if (scenario === undefined) throw new Error(`there is no scenario ${given.scenario}`)
const seams = new Seams(given.kind === 'run' ? given.killAt : undefined)
const store = await openStore(place, { max: 2, seams })
const hapax = createHapax({ store, source: '/sweep', delivery: scenario.delivery, logger: silentLogger })

if (given.kind === 'run') {
  const { rig } = open(given.run)
  await scenario.prepare(rig)
  seams.arm()
  await scenario.run(rig)
} else {
  const opened = given.runs.map((run) => open(run))
  for (const [index, { rig }] of opened.entries()) {
    // As an operator would: what a person had mended stays mended.
    if (scenario.name === 'failed, then retried') rig.heal()
    await scenario.repair(rig)
    // Some brokers mark a redelivery, some do not.
    for (let acked = false; !acked; ) acked = (await rig.deliver(index % 2 === 1)).every(({ ack }) => ack)
  }
  await work(opened.flatMap(({ consumers }) => consumers))
}
await say({ points: seams.points })
await hapax.close()
process.disconnect()

function open(run: string): { rig: Rig; consumers: readonly Rig['consumer'][] } {
  const { messages, delivery, options, fails } = scenario as NonNullable<typeof scenario>
  const done = defineMessage<Data>(`done.${run}`)
  let healed = false
  const consumer = hapax.consumer(run, options).on(defineMessage<Data>(`order.${run}`), async ({ index }, ctx) => {
    await seams.around('handler.query', () => ctx.tx.query(insertEffect(place, run, `m-${index}`)))
    const id = delivery === 'relay' ? { id: `${run} m-${index}` } : {}
    await seams.around('handler.publish', () => ctx.publish(done, { index }, id))
    const error = healed ? undefined : fails(ctx.attempt, index)
    if (error !== undefined) throw error
  })
  const consumers = [consumer]
  if (delivery === 'local') {
    consumers.push(
      hapax.consumer(`${run} audit`).on(done, async ({ index }, { tx }) => {
        await tx.query(insertEffect(place, `${run} audit`, `m-${index}`))
      }),
    )
  }
  const deliveries = Array.from({ length: messages }, (_, index): IncomingMessage => {
    return { id: `m-${index}`, source: '/sweep', type: `order.${run}`, data: { index } }
  })
  const rig: Rig = {
    hapax,
    consumer,
    deliver: (redelivered = false): Promise<readonly Outcome[]> =>
      consumer.handleMany(deliveries.map((each) => ({ ...each, redelivered }))),
    work: () => work(consumers),
    heal: () => {
      healed = true
    },
  }
  return { rig, consumers }
}

async function work(consumers: readonly Rig['consumer'][]): Promise<void> {
  const worker = hapax.worker({ consume: consumers, takeoverMs: 300, pollMs: 20 })
  await worker.start()
  await worker.drain()
  await worker.stop()
}
