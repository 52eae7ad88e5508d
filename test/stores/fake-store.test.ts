import type { Store } from 'hapax'
import { expect, test } from 'vitest'
import { CALM, Chaos } from '../simulator/chaos.ts'
import { replayed } from '../simulator/choices.ts'
import { Database } from '../simulator/database.ts'
import { SimStore } from '../simulator/sim-store.ts'
import { randomTrace, runTrace, type Traced } from '../simulator/traces.ts'
import { Process, World } from '../simulator/world.ts'
import { type Checker, durableStores, makePlace, openStore } from '../support/databases.ts'
import { inThisRun } from '../support/runs.ts'
import { seed as anySeed } from '../support/seeded.ts'

const TRACES = Number(process.env['HAPAX_TEST_TRACES'] ?? 100)
const LENGTH = 25
/** The share of `npm test`. */
const IN_TEST = 25

/**
 * The same traces every time, unless HAPAX_TEST_SEED asks for others: there is one known difference, which few traces show. MariaDB
 * also locks the rows that a claim passes over, so that whoever has lost the lease of one is told `busy` at first.
 */
const seed = process.env['HAPAX_TEST_SEED'] === undefined ? 7 : anySeed

/** The fake store in a world without faults, which moves when somebody waits for an answer. */
function fake(locksDuplicates: boolean): Traced {
  const world = new World(replayed([]))
  const db = new Database(world, { locksDuplicates })
  const store = new SimStore(db, new Process(world, 'trace', 1), new Chaos(world, CALM))
  return {
    store: store as unknown as Store<never>,
    settle: async (answer) => {
      let settled = false
      const note = (): void => {
        settled = true
      }
      answer.then(note, note)
      await world.run(() => settled, Number.POSITIVE_INFINITY, 10_000)
      return answer
    },
  }
}

const TABLES = [
  'receipts',
  'inbox',
  'outbox',
  'failed',
  'sent',
  'workers',
  'relays',
  'subscriptions',
  'audit',
  'effects',
] as const

async function empty({ place, query }: Checker): Promise<void> {
  for (const name of TABLES) await query(`delete from ${place.schema === '' ? 'hapax_' : `${place.schema}.`}${name}`)
}

/** A vacuum that shortens a table locks it for a moment, and a transaction of a trace waits for a lock for 30 ms at most. */
async function keepFromVacuum({ place, query }: Checker): Promise<void> {
  if (place.store !== 'postgres') return
  for (const name of TABLES) await query(`alter table ${place.schema}.${name} set (autovacuum_enabled = off)`)
}

const traces = inThisRun([...Array(TRACES).keys()], (each) => each < IN_TEST)

for (const name of durableStores()) {
  const parallel = name !== 'sqlite'
  test(`the fake store answers as ${name} does (seed ${seed})`, { timeout: 300_000 }, async () => {
    await using checker = await makePlace(name)
    await keepFromVacuum(checker)
    const store = await openStore(checker.place, { max: 6 })
    try {
      for (const each of traces) {
        const trace = randomTrace(seed + each, LENGTH, parallel)
        await empty(checker)
        const real = await runTrace({ store: store as unknown as Store<never>, settle: (answer) => answer }, trace)
        expect(await runTrace(fake(name === 'mysql'), trace), `HAPAX_TEST_SEED=${seed + each}`).toEqual(real)
      }
    } finally {
      await store.close()
    }
  })
}
