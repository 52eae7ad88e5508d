import { describe, expect, it } from 'vitest'
import { Child } from '../support/child.ts'
import { asText, type Checker, countEffects, durableStores, makePlace, table } from '../support/databases.ts'
import { inLanes } from '../support/lanes.ts'
import { inThisRun } from '../support/runs.ts'
import { seed, seeded } from '../support/seeded.ts'
import type { KillJob, KillReport } from './kill-child.ts'
import { type Scenario, scenarios } from './kill-scenarios.ts'

/** A process waits for the database half of its time. */
const LANES = 3
const TRIES = 3

/** Every single point, instead of one of every second case; the seed says which. */
const FULL = process.env['HAPAX_TEST_SWEEP'] === 'full'

/** One that commits at once, two that work in a group, and one that goes through the inbox. */
const IN_TEST = [
  'first delivery',
  'group of 3, one fails',
  'group of 6, the last three overlap',
  'retry fails, then succeeds',
]
const chosenScenarios = inThisRun(scenarios, ({ name }) => IN_TEST.includes(name))

interface Swept {
  readonly scenario: string
  readonly points: number
  readonly kills: number
  readonly lost: number
  readonly doubled: number
}

describe.each(durableStores())('%s: kill sweep', (store) => {
  it(`A2 C3 C4: loses and doubles nothing, whenever the process is killed (seed ${seed})`, async () => {
    await using checker = await makePlace(store)
    const swept: Swept[] = []
    const complaints: string[] = []
    await inLanes(LANES, chosenScenarios, async (scenario) => {
      const { name } = scenario
      const points = await pointsOf(checker, scenario)
      const chosen = FULL ? points : representatives(points)
      const killed: Killed[] = []
      for (const killAt of chosen) killed.push(await kill(checker, scenario, killAt, killed.length))
      const runs = killed.flatMap(({ killAt, runs }) => runs.map((run) => ({ killAt, run })))
      await recover(
        checker,
        scenario,
        runs.map(({ run }) => run),
      )
      const found = await find(checker)
      let lost = 0
      let doubled = 0
      for (const { run, killAt } of runs) {
        const end = compare(found, scenario, run)
        lost += end.lost
        doubled += end.doubled
        if (end.lost + end.doubled > 0)
          complaints.push(`${name}, killed ${killAt}: ${end.lost} lost, ${end.doubled} doubled`)
      }
      swept.push({ scenario: name, points: points.length, kills: killed.length, lost, doubled })
    })
    console.log(`kill sweep on ${store}\n${asTable(swept)}`)
    expect(complaints).toEqual([])
    expect(swept.filter(({ kills }) => kills === 0)).toEqual([])
  }, 900_000)
})

/** Where a process can be killed, from two clean runs: what only one of them met was a look into an inbox not due yet. */
async function pointsOf(checker: Checker, scenario: Scenario): Promise<readonly string[]> {
  // One after the other: at the same moment both would meet what only a busy moment has.
  const first = await cleanRun(checker, scenario, 'one')
  const second = await cleanRun(checker, scenario, 'two')
  return first.filter((point) => second.includes(point) && !OF_A_CONNECTION.test(point))
}

/** Comes with each new connection. How many are opened depends on what happens at the same time. */
const OF_A_CONNECTION = /current_setting\('client_encoding'\)|set @hapax_link/

async function cleanRun({ place }: Checker, { name }: Scenario, run: string): Promise<readonly string[]> {
  const child = start({ kind: 'run', place, scenario: name, run: `${letters(name)}-${run}` })
  const { points } = await child.next()
  expect(await child.ended).toMatchObject({ code: 0, errors: '' })
  expect(new Set(points).size).toBe(points.length)
  return points
}

/** Kills a process at a point; answers its run, and all runs that it took to meet the point. */
async function kill({ place }: Checker, { name }: Scenario, killAt: string, number: number): Promise<Killed> {
  const runs: string[] = []
  for (;;) {
    const run = `${letters(name)}-${number}-${runs.length}`
    runs.push(run)
    const { signal, code, errors } = await start({ kind: 'run', place, scenario: name, run, killAt }).ended
    if (signal === 'SIGKILL') return { killAt, runs }
    if (code !== 0 || runs.length === TRIES) {
      throw new Error(`${name}: the point '${killAt}' was not reached (${signal ?? code}) ${errors}`)
    }
  }
}

interface Killed {
  readonly killAt: string
  readonly runs: readonly string[]
}

async function recover({ place }: Checker, { name }: Scenario, runs: readonly string[]): Promise<void> {
  expect(await start({ kind: 'recover', place, scenario: name, runs }).ended).toMatchObject({ code: 0, errors: '' })
}

function start(job: KillJob): Child<KillReport> {
  return new Child(new URL('./kill-child.ts', import.meta.url), job, 180_000)
}

/**
 * One point of those that are one case: a killed process keeps nothing, so that only what the database has seen counts.
 * Between two statements it has seen the same; and whether a statement that commits nothing was still on its way or
 * answered, its transaction is rolled back. Which point it is changes with the seed.
 */
function representatives(points: readonly string[]): readonly string[] {
  const random = seeded(seed)
  const cases: string[][] = [[]]
  for (const [index, point] of points.entries()) {
    if (/^(in flight|after) statement /.test(point)) cases.push([point])
    else cases.at(-1)?.push(point)
    const alone = points[index - 1]?.startsWith('before connection.query')
    if (point.startsWith('in flight') && (alone || point.includes('commit'))) cases.push([])
  }
  const different = cases.filter((equal) => equal.length > 0)
  return different
    .map((equal) => equal[Math.floor(random() * equal.length)] as string)
    .filter((_, index) => index % 2 === seed % 2)
}

/** What is in the tables: how often each name is there. */
interface Found {
  readonly effects: ReadonlyMap<string, number>
  readonly outbox: ReadonlyMap<string, number>
  readonly failed: ReadonlyMap<string, number>
  readonly inbox: ReadonlyMap<string, number>
}

async function find(checker: Checker): Promise<Found> {
  const { place } = checker
  return {
    effects: await countEffects(checker),
    outbox: await count(checker, `select id as name from ${table(place, 'outbox')}`),
    failed: await count(checker, `select consumer as name from ${table(place, 'failed')}`),
    inbox: await count(checker, `select consumer as name from ${table(place, 'inbox')}`),
  }
}

/** Compares what is there with what has to be there. */
function compare(found: Found, { messages, delivery, end }: Scenario, run: string): { lost: number; doubled: number } {
  const { effects, outbox, failed, inbox } = found
  const good = end === 'effect' ? 1 : 0
  const pairs = [
    [failed.get(run) ?? 0, (1 - good) * messages],
    [inbox.get(run) ?? 0, 0],
    [inbox.get(`${run} audit`) ?? 0, 0],
  ]
  for (let index = 0; index < messages; index++) {
    pairs.push([effects.get(`${run} m-${index}`) ?? 0, good])
    const published = delivery === 'local' ? effects.get(`${run} audit m-${index}`) : outbox.get(`${run} m-${index}`)
    pairs.push([published ?? 0, good])
  }
  let lost = 0
  let doubled = 0
  for (const [there = 0, due = 0] of pairs) {
    lost += Math.max(0, due - there)
    doubled += Math.max(0, there - due)
  }
  return { lost, doubled }
}

async function count(checker: Checker, query: string): Promise<Map<string, number>> {
  const counts = new Map<string, number>()
  for (const row of await checker.query(query)) {
    const name = asText(row['name'])
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return counts
}

function letters(name: string): string {
  return name.replace(/[^a-z0-9]+/gi, '-')
}

function asTable(swept: readonly Swept[]): string {
  const sum = (name: 'points' | 'kills' | 'lost' | 'doubled'): number =>
    swept.reduce((total, each) => total + each[name], 0)
  const total = {
    scenario: 'all',
    points: sum('points'),
    kills: sum('kills'),
    lost: sum('lost'),
    doubled: sum('doubled'),
  }
  return [...swept, total]
    .map(
      ({ scenario, points, kills, lost, doubled }) =>
        `  ${scenario.padEnd(32)} ${points} points, ${kills} kills, ${lost} lost, ${doubled} doubled`,
    )
    .join('\n')
}
