import { beforeEach, expect, it } from 'vitest'
import type { Clock } from '../../src/base/index.ts'
import type { Row } from '../../src/contracts/index.ts'
import { Sessions } from '../../src/stores/sql/parts/sessions.ts'
import { sqlWorkers } from '../../src/stores/sql/parts/workers.ts'

let now = 0
/** The workers of the database, and the sessions of the server that answers. */
let rows: { id: string; session: string | null }[] = []
let there: Set<string> = new Set()
let isThere: ((session: string) => boolean | undefined) | undefined

beforeEach(() => {
  now = 0
  rows = [
    { id: 'me', session: '1' },
    { id: 'other', session: '2' },
  ]
  there = new Set(['1', '2'])
  isThere = undefined
})

/** The workers as a process sees them whose session is 1. */
async function observer() {
  const clock: Pick<Clock, 'monotonic'> = { monotonic: () => now }
  const sessions = new Sessions(clock, '1')
  const list = { text: 'list', params: [] }
  const row = ({ id, session }: (typeof rows)[number]): Row => {
    const told = { id, name: id, serves: '{}', started_at: 0, silent_ms: 0, alive: true, in_hand: '[]', listed_at: 0 }
    return { ...told, session, ...(isThere === undefined && { there: session === null || there.has(session) }) }
  }
  const calls = { run: async (said: unknown) => ({ rows: said === list ? rows.map(row) : [], affected: 0 }) }
  const session = isThere && { own: () => '1', isThere: (mark: string) => isThere?.(mark) }
  const workers = sqlWorkers({
    calls,
    sessions,
    dialect: { workers: { list, join: () => undefined, attend: () => undefined, session } },
  } as never)
  await workers.join({ id: 'me', name: 'me', ttlMs: 1, serves: '{}' })
  const states = async (): Promise<string> => {
    const peers = await workers.list()
    return peers.map(({ alive, doubtful }) => (doubtful ? 'doubtful' : alive ? 'alive' : 'ended')).join()
  }
  return { sessions, states }
}

it('a session that was seen before and is missing for half a second has ended with its process', async () => {
  const { states } = await observer()
  expect(await states()).toBe('alive,alive')
  there.delete('2')
  expect(await states()).toBe('alive,doubtful')
  now += 499
  expect(await states()).toBe('alive,doubtful')
  now += 1
  expect(await states()).toBe('alive,ended')
})

it('on a server that does not know the own session, none is missed', async () => {
  const { states } = await observer()
  expect(await states()).toBe('alive,alive')
  // The pool has followed a fail-over; the session that listens hangs at the server that is gone.
  there.clear()
  expect(await states()).toBe('alive,alive')
  now += 1_000
  expect(await states()).toBe('alive,alive')
})

it('what cannot be told of a process does not mean that it has ended', async () => {
  const running = new Map<string, boolean | undefined>([
    ['1', true],
    ['2', true],
  ])
  isThere = (mark) => running.get(mark)
  const { states } = await observer()
  expect(await states()).toBe('alive,alive')
  running.set('2', undefined)
  expect(await states()).toBe('alive,alive')
  now += 1_000
  expect(await states()).toBe('alive,alive')
  running.set('2', false)
  expect(await states()).toBe('alive,doubtful')
  now += 1_000
  expect(await states()).toBe('alive,ended')
})

it('a session that was never seen is not missed, nor one while the own has ended', async () => {
  there.delete('2')
  const { states, sessions } = await observer()
  now += 1_000
  expect(await states()).toBe('alive,alive')
  there.add('2')
  expect(await states()).toBe('alive,alive')
  there.delete('2')
  sessions.change(undefined)
  now += 1_000
  expect(await states()).toBe('alive,alive')
})
