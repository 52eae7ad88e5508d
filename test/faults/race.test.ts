import { describe, expect, it } from 'vitest'
import { Child } from '../support/child.ts'
import { countEffects, durableStores, makePlace } from '../support/databases.ts'
import { oneInTest } from '../support/runs.ts'
import { seed } from '../support/seeded.ts'
import type { RaceJob, RaceReport } from './race-child.ts'

const PROCESSES = 8
const MESSAGES = 2_000

/** One by one and in groups, so that each meets the other. */
const GROUPS = [1, 20, 5, 20]

describe.each(oneInTest(durableStores(), 'postgres'))('%s: racing consumers', (store) => {
  it(`A31: gives each of ${MESSAGES} messages one effect, whichever of ${PROCESSES} processes gets it first (seed ${seed})`, async () => {
    await using checker = await makePlace(store)
    const { place } = checker
    const children = Array.from({ length: PROCESSES }, (_, index) => {
      const job: RaceJob = {
        place,
        seed: seed + index,
        messages: MESSAGES,
        inFlight: 2,
        group: GROUPS[index % GROUPS.length] as number,
      }
      return new Child<RaceReport>(new URL('./race-child.ts', import.meta.url), job, 590_000)
    })
    await Promise.all(children.map((child) => child.next()))
    const start = performance.now()
    for (const child of children) child.tell({ go: true })
    const reports = await Promise.all(children.map((child) => child.next()))
    const seconds = (performance.now() - start) / 1000
    await Promise.all(children.map((child) => child.ended))

    const effects = await countEffects(checker)
    const sum = (count: (report: RaceReport) => number | undefined): number =>
      reports.reduce((total, report) => total + (count(report) ?? 0), 0)
    const processed = sum(({ counts }) => counts['processed'])
    const duplicate = sum(({ counts }) => counts['duplicate'])
    console.log(
      `race on ${store}: ${MESSAGES * PROCESSES} deliveries in ${seconds.toFixed(1)} s, ${processed} processed, ` +
        `${duplicate} duplicates, ${sum((report) => report.redeliveries)} redelivered`,
    )
    expect(effects.size).toBe(MESSAGES)
    expect([...effects].filter(([, count]) => count !== 1)).toEqual([])
    expect({ processed, duplicate }).toEqual({ processed: MESSAGES, duplicate: MESSAGES * (PROCESSES - 1) })
  }, 600_000)
})
