import { describe, expect, it } from 'vitest'
import { type Checker, makePlace } from '../support/databases.ts'
import {
  ORDERS,
  type OrmApplication,
  type OrmTarget,
  openDrizzle,
  openKysely,
  openPrisma,
  openTypeorm,
} from '../support/orms.ts'
import { inThisRun } from '../support/runs.ts'
import { seed } from '../support/seeded.ts'
import { uncaughtErrors } from '../support/uncaught.ts'
import { type OrmSoakOptions, type OrmSoakResult, ormSoak } from './orm-soak.ts'

const full = process.env['HAPAX_TEST_ORM_SOAK'] === 'full'
const messages = full ? 5_000 : 1_000

const sizes: Pick<OrmSoakOptions, 'inFlight' | 'max' | 'deadlineMs'> = {
  inFlight: 8,
  max: 6,
  deadlineMs: full ? 900_000 : 600_000,
}

type Soaked = (target: OrmTarget, checker: Checker, options: OrmSoakOptions) => Promise<OrmSoakResult>

const soaked =
  <Tx extends object>(open: (target: OrmTarget) => Promise<OrmApplication<Tx>>): Soaked =>
  async (target, checker, options) => {
    const application = await open(target)
    try {
      return await ormSoak(application, checker, options)
    } finally {
      await application.close()
    }
  }

const orms: Readonly<Record<string, Soaked>> = {
  prisma: soaked(openPrisma),
  drizzle: soaked(openDrizzle),
  kysely: soaked(openKysely),
  typeorm: soaked(openTypeorm),
}

/** `npm test` takes a few messages through one ORM. */
const few = { orm: 'kysely', messages: 400 }
const all = Object.keys(orms).map((orm) => ({ orm, messages }))
const runs = full ? all : inThisRun([few, ...all], (run) => run === few)

function show(orm: string, messages: number, { faults, seconds, lost, doubled }: OrmSoakResult): void {
  console.log(
    `soak of ${orm} (seed ${seed}): ${messages} messages in ${seconds.toFixed(0)} s, ` +
      `${faults.terminated} backends terminated, pool used up ${faults.exhausted} times, ` +
      `${faults.thrown} handlers threw, ${faults.hung} hung, ${faults.again} deliveries came again; ` +
      `${lost.length} lost, ${doubled.length} doubled`,
  )
}

describe.each(runs)('$orm: a soak', ({ orm, messages }) => {
  it(`E8: ${messages} messages take effect once while backends are terminated and the pool is used up, and no connection leaks (seed ${seed})`, {
    timeout: sizes.deadlineMs * 2 + 60_000,
  }, async () => {
    const uncaught = uncaughtErrors()
    await using checker = await makePlace('postgres')
    const { url, schema } = checker.place
    await checker.query(`create table ${schema}.${ORDERS} (id text not null, total bigint not null default 0)`)
    const options: OrmSoakOptions = { ...sizes, messages, seed, application: schema }
    const result = await orms[orm]?.({ url, schema, application: schema, max: sizes.max }, checker, options)
    if (result === undefined) expect.unreachable()
    show(orm, messages, result)
    const { lost, doubled, left, faults } = result
    expect({ lost, doubled, left }).toEqual({ lost: [], doubled: [], left: 0 })
    expect(faults.terminated).toBeGreaterThan(10)
    expect(faults.exhausted).toBeGreaterThan(0)
    expect(faults.thrown).toBeGreaterThan(0)
    expect(faults.hung).toBeGreaterThan(0)
    expect(uncaught).toEqual([])
  })
})
