import { describe, expect, it } from 'vitest'
import { Child } from '../support/child.ts'
import { asText, type Checker, durableStores, makeEmptyPlace, table } from '../support/databases.ts'
import type { SideJob, SideReport } from './side-by-side-child.ts'

const MESSAGES = 200

describe.for(durableStores())('a rolling deployment on %s', (store) => {
  it('loses and doubles nothing while workers of the previous schema go on beside new ones', async () => {
    await using checker = await makeEmptyPlace(store)
    const start = (version: SideJob['version'], task: SideJob['task'], name: string): Child<SideReport> =>
      new Child(
        new URL('./side-by-side-child.ts', import.meta.url),
        { place: checker.place, version, task, name, messages: MESSAGES } satisfies SideJob,
        110_000,
      )
    const migrate = async (version: SideJob['version']): Promise<SideReport> => {
      const child = start(version, 'migrate', 'migration')
      const report = await child.next()
      expect(await child.ended).toMatchObject({ code: 0, errors: '' })
      return report
    }
    const worker = async (version: SideJob['version']): Promise<Child<SideReport>> => {
      const child = start(version, 'work', 'worker')
      await child.next()
      return child
    }

    expect(await migrate('old')).toEqual({ applied: [1, 2] })
    const old = [await worker('old'), await worker('old')] as const
    const before = start('old', 'publish', 'old')
    await published(before, MESSAGES / 4)
    expect(await migrate('new')).toEqual({ applied: [3] })
    // A version that knows less than the database is content, so that it can be restarted or rolled back to.
    expect(await migrate('old')).toEqual({ applied: [] })

    const young = [await worker('new'), await worker('new')] as const
    const after = start('new', 'publish', 'new')
    await published(after, MESSAGES / 4)
    for (const child of [old[1], young[1]]) child.kill('SIGKILL')
    const late = await worker('old')
    for (const child of [before, after]) await published(child, (MESSAGES * 3) / 4)
    for (const child of [old[0], late]) await stop(child)
    for (const child of [before, after]) await stop(child)
    await expect.poll(() => left(checker), { timeout: 60_000, interval: 200 }).toEqual({ inbox: 0, outbox: 0 })
    await stop(young[0])

    const pids = { old: [...old, late].map(({ pid }) => pid), new: young.map(({ pid }) => pid) }
    await verify(checker, pids)
  }, 120_000)
})

/** Tells a worker to end, or a publisher to go on to its end. */
async function stop(child: Child<SideReport>): Promise<void> {
  child.tell({})
  expect(await child.ended).toMatchObject({ code: 0, errors: '' })
}

/** Waits until a process has published so many messages. */
async function published(child: Child<SideReport>, count: number): Promise<void> {
  while (((await child.next()).published ?? 0) < count);
}

async function left({ place, query }: Checker): Promise<{ inbox: number; outbox: number }> {
  const [inbox] = await query(`select count(*) as n from ${table(place, 'inbox')}`)
  const [outbox] = await query(`select count(*) as n from ${table(place, 'outbox')}`)
  return { inbox: Number(inbox?.['n']), outbox: Number(outbox?.['n']) }
}

/** Compares what took effect with what was published, and makes sure that both versions did what the other had published. */
async function verify(checker: Checker, pids: { old: readonly number[]; new: readonly number[] }): Promise<void> {
  const published = await effects(checker, 'published')
  const billing = await effects(checker, 'billing')
  const never = [...published.keys()].filter((id) => Number(id.split('-').at(-1)) % 25 === 7)
  const once = [...published.keys()].filter((id) => !never.includes(id)).sort()
  for (const consumer of ['billing', 'audit']) {
    const done = [...(await effects(checker, consumer))].flatMap(([id, by]) => by.map(() => id))
    expect({ consumer, done: done.sort() }).toEqual({ consumer, done: once })
  }
  const failed = await checker.query(`select id, consumer from ${table(checker.place, 'failed')}`)
  const given = failed.map((row) => `${asText(row['consumer'])} ${asText(row['id'])}`)
  expect(given.sort()).toEqual(never.map((id) => `billing ${id}`).sort())
  const outgoing = [...(await effects(checker, 'outgoing')).keys()]
  expect([...(await effects(checker, 'relayed')).keys()].sort()).toEqual(outgoing.sort())

  const crossed = (from: 'old' | 'new', by: readonly number[]): number =>
    [...billing].filter(([id, [worker]]) => id.startsWith(from) && by.includes(worker as number)).length
  console.log(
    `${checker.place.store}: ${once.length} messages, ${crossed('old', pids.new)} of the old version's handled by the new ` +
      `one, ${crossed('new', pids.old)} the other way round`,
  )
  expect(crossed('old', pids.new)).toBeGreaterThan(0)
  expect(crossed('new', pids.old)).toBeGreaterThan(0)
}

/** The processes that made each effect. */
async function effects({ place, query }: Checker, consumer: string): Promise<Map<string, number[]>> {
  const name = place.store === 'postgres' ? `${place.schema}.business` : 'effects'
  const found = new Map<string, number[]>()
  for (const row of await query(`select id, process from ${name} where consumer = '${consumer}'`)) {
    const id = asText(row['id'])
    found.set(id, [...(found.get(id) ?? []), Number(row['process'])])
  }
  return found
}
