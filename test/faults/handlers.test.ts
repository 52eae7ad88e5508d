import { describe, expect, it } from 'vitest'
import { Child } from '../support/child.ts'
import { type Checker, countEffects, durableStores, makePlace, table } from '../support/databases.ts'
import type { HandlerJob, HandlerReport } from './handler-child.ts'

/** Longer than a busy machine keeps a process from entering its handler. */
const TIMEOUT_MS = 5_000

function start(job: HandlerJob): Child<HandlerReport> {
  return new Child(new URL('./handler-child.ts', import.meta.url), job, 240_000)
}

/** Everything that the process says until it ends. */
async function reportsOf(child: Child<HandlerReport>): Promise<HandlerReport[]> {
  const reports: HandlerReport[] = []
  for (;;) {
    const report = await child.next().catch(() => undefined)
    if (report === undefined) return reports
    reports.push(report)
  }
}

async function expectOneEffect(checker: Checker, id: string): Promise<void> {
  expect(await countEffects(checker)).toEqual(new Map([[`billing ${id}`, 1]]))
  for (const name of ['inbox', 'failed'] as const) {
    expect(await checker.query(`select id from ${table(checker.place, name)}`)).toEqual([])
  }
}

// At the same time, because most of it is waiting for time-outs.
describe.each(durableStores())('%s: handlers that behave badly', { timeout: 300_000, concurrent: true }, (store) => {
  it('A9 A11: what a handler writes after its time is refused, whatever it still holds', async () => {
    await using checker = await makePlace(store)
    const child = start({ place: checker.place, id: 'late', behaviour: 'outlives', timeoutMs: TIMEOUT_MS })
    const reports = await reportsOf(child)
    expect(await child.ended).toMatchObject({ code: 0, errors: '' })
    const late = reports.find((report) => report.said === 'late')
    expect(late?.refusals).toHaveLength(9)
    expect(late?.refusals).not.toContain('none')
    expect(statuses(reports)).toEqual(['retrying'])
    await expectOneEffect(checker, 'late')
  })

  it('A11: a handler that keeps the processor past its time takes effect once', async () => {
    await using checker = await makePlace(store)
    const child = start({ place: checker.place, id: 'busy', behaviour: 'computes', timeoutMs: 200 })
    await reportsOf(child)
    expect(await child.ended).toMatchObject({ code: 0, errors: '' })
    await expectOneEffect(checker, 'busy')
  })

  it.runIf(store === 'postgres')(
    'A13: a stopped process loses its transaction to another, and cannot commit',
    async () => {
      await using checker = await makePlace(store)
      // The database ends a transaction that was idle for this time and ten seconds of grace.
      const job = { place: checker.place, id: 'paused', timeoutMs: TIMEOUT_MS } as const
      const other = start({ ...job, behaviour: 'good', waits: true })
      expect(await other.next()).toEqual({ said: 'ready' })
      const paused = start({ ...job, behaviour: 'waits' })
      expect(await paused.next()).toEqual({ said: 'entered' })
      paused.kill('SIGSTOP')
      other.tell({ go: true })
      const seen = statuses(await reportsOf(other))
      expect(new Set(seen)).toEqual(new Set(['busy', 'processed']))
      paused.kill('SIGCONT')
      paused.tell({ go: true })
      expect(statuses(await reportsOf(paused))).toEqual(['duplicate'])
      expect(await paused.ended).toMatchObject({ code: 0, errors: '' })
      await expectOneEffect(checker, 'paused')
    },
  )

  // No server ends the transaction of a stopped process there: others wait, unacknowledged, until it goes on or dies.
  it.runIf(store !== 'postgres').each(['SIGCONT', 'SIGKILL'] as const)(
    'A13: a stopped process keeps others waiting, and %s ends that with one effect',
    async (signal) => {
      await using checker = await makePlace(store)
      const job = { place: checker.place, id: 'paused', timeoutMs: TIMEOUT_MS } as const
      const paused = start({ ...job, behaviour: 'waits' })
      expect(await paused.next()).toEqual({ said: 'entered' })
      paused.kill('SIGSTOP')
      const other = start({ ...job, behaviour: 'good' })
      expect(await other.next()).toEqual({ said: 'ended', status: 'busy' })
      paused.kill(signal)
      const seen = statuses(await reportsOf(other))
      expect(['processed', 'duplicate']).toContain(seen.at(-1))
      await reportsOf(paused)
      expect(await paused.ended).toMatchObject(signal === 'SIGKILL' ? { signal } : { code: 0, errors: '' })
      await expectOneEffect(checker, 'paused')
    },
  )
})

function statuses(reports: readonly HandlerReport[]): string[] {
  return reports.flatMap((report) => (report.said === 'ended' ? [report.status] : []))
}
