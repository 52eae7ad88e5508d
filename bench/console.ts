import { setTimeout as delay } from 'node:timers/promises'
import { createConsole } from 'hapax/console'
import { fillFailed, fillReceipts } from './backlog.ts'
import { heading, percentile, progress, report, reportValue, sideBySide, type Timed } from './measure.ts'
import type { Bench, Part } from './part.ts'
import { CONSUMER, Counted, filled, type Rig, rig } from './rig.ts'

const MILLION = 1_000_000

/** What each page of the console asks for. */
const PAGES: Readonly<Record<string, string>> = {
  overview: 'overview',
  messages: 'messages?place=inbox',
  'messages by key': 'messages?place=inbox&key=key%2017',
  'messages by type': 'messages?place=inbox&type=counted',
  'messages of a type that nobody has': 'messages?place=inbox&type=none',
  receipts: 'messages?place=receipts',
  'failed groups': 'failed/groups',
  failed: 'messages?place=failed',
  'held keys': 'keys',
  effects: 'effects?state=unknown',
  workers: 'workers',
  retries: 'retries',
  audit: 'audit',
  operations: 'operations',
  health: 'health',
  'one message': 'message?id=019a8c3e-5b0e-7d44-9d3b-0f6f1f0c7a11',
  'one message, another id': 'message?id=order-17',
}

/** The pages of the console on large tables, and what an open console costs. */
export const consolePages: Part = {
  name: 'console',
  about: 'every page of the console on large tables; consuming with an open console / without',
  needs: ['postgres'],
  sections: ['pages', 'open'],
  async run(bench) {
    heading('The console on PostgreSQL')
    if (bench.wants('pages')) await pages(bench)
    if (bench.wants('open')) await open(bench)
  },
}

/** Asks a console as a page does. */
function asker({ hapax }: Rig): { ask(path: string): Promise<void>; close(): Promise<void> } {
  const { handler, close } = createConsole(hapax, { authorize: () => ({ actor: 'bench', role: 'viewer' }) })
  return {
    ask: async (path) => {
      const response = await handler(new Request(`http://127.0.0.1/api/${path}`))
      const text = await response.text()
      if (response.status !== 200) throw new Error(`${path}: ${response.status} ${text}`)
    },
    close: async () => void (await close()),
  }
}

async function pages(bench: Bench): Promise<void> {
  const full = await rig(bench.url('postgres'), 'bench_console', {})
  const { pool, schema } = full
  const backlog = { schema, consumer: CONSUMER, type: Counted.type }
  const receipts = bench.size(10 * MILLION, MILLION / 2)
  await fillReceipts(pool, { ...backlog, count: receipts }, 20, (count) => progress(`${count} receipts`))
  await full.fill({ count: bench.size(MILLION, MILLION / 20), order: 'many keys' })
  await fillFailed(pool, { ...backlog, count: bench.size(100_000, 5_000) })
  progress('filled')
  const { ask, close } = asker(full)
  for (const [name, path] of Object.entries(PAGES)) {
    const times: number[] = []
    for (let round = 0; round < 8 * bench.rounds; round++) {
      const begun = performance.now()
      await ask(path)
      times.push(performance.now() - begun)
    }
    reportValue(`${name}, p95`, percentile(times, 0.95), 'ms', { aim: { of: 'hapax', most: 300 } })
  }
  await close()
  await full.close()
}

/** Three people look at the overview while a worker works. */
async function open(bench: Bench): Promise<void> {
  const some = { count: bench.size(40_000, 4_000) }
  const watched = await rig(bench.url('postgres'), 'bench_watched', {})
  const alone = await rig(bench.url('postgres'), 'bench_alone', {})
  const { ask, close } = asker(watched)
  const without = filled(watched, some)
  const looking: Timed = {
    ...without,
    run: async (round) => {
      const stop = new AbortController()
      const people = ['overview', 'failed/groups', 'messages?place=inbox'].map(async (path) => {
        while (!stop.signal.aborted) {
          await ask(path)
          await delay(2_000, undefined, { signal: stop.signal }).catch(() => {})
        }
      })
      const taken = await without.run(round)
      stop.abort()
      await Promise.all(people)
      return taken
    },
  }
  const measured = await sideBySide(bench.size(9, bench.rounds), looking, filled(alone, some))
  report('consuming with three open pages / with none', measured, 0.98)
  await close()
  await watched.close()
  await alone.close()
}
