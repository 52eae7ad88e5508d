import type { StoreStatus, WorkerRow } from 'hapax/contracts'
import { expect, it } from 'vitest'
import { workerFindings } from '../../src/admin/doctor-workers.ts'
import { consumerViews, relayViews, workersView } from '../../src/console/views/overview.ts'

const at = new Date('2026-05-01T12:00:00Z')

function worker(id: string, unable: { missing?: string[]; failing?: Record<string, string> } = {}): WorkerRow {
  const serves = JSON.stringify({ source: '/shop', consumers: { billing: ['a'] }, relays: ['default'], ...unable })
  return { id, name: `host ${id}`, serves, startedAt: at, silentMs: 10, alive: true, inHand: 0, listedAt: at }
}

function consumer(name: string, waiting: number, oldestAt: Date | null = at): StoreStatus['consumers'][number] {
  const none = { retrying: 0, held: 0, failed: 0, unknownEffects: 0, estimated: false }
  return { consumer: name, waiting, oldestAt, ...none }
}

function relay(name: string, waiting: number, retrying = 0): StoreStatus['relays'][number] {
  const none = { held: 0, failed: 0, oldestAt: at, destination: 'rabbitmq', estimated: false }
  return { relay: name, waiting, retrying, ...none }
}

function statusOf(given: Partial<StoreStatus>): StoreStatus {
  return { at, consumers: [], relays: [], failed: [], tables: [], workers: [], paused: [], ...given }
}

const seen = { payloads: false } as Parameters<typeof relayViews>[2]

it('a consumer is unserved if messages wait for a worker and none is alive; without messages, it needs none', () => {
  const status = statusOf({
    consumers: [
      consumer('billing', 5),
      consumer('search', 10_000),
      consumer('idle', 0, null),
      // Requests that are not due are being worked on by the processes that received them.
      consumer('http:orders', 3, null),
      consumer('http:late', 3),
    ],
    workers: [worker('1')],
  })
  const views = consumerViews(status, [{ name: 'new', types: ['a'], ordered: false }])
  expect(views.filter(({ unserved }) => unserved).map(({ name }) => name)).toEqual(['http:late', 'search'])
  expect(views.filter(({ workers }) => workers === 0)).toHaveLength(5)
})

it('a relay shows what it sends again and why, how many workers do not reach its destination, and why', () => {
  const status = statusOf({
    relays: [relay('default', 24, 7), relay('audit', 2), relay('idle', 0)],
    workers: [worker('1', { failing: { default: 'connect ECONNREFUSED' } }), worker('2')],
  })
  const errors = new Map([['default', { name: 'Error', message: 'NO_ROUTE' }]])
  expect(relayViews(status, errors, seen)).toMatchObject([
    {
      name: 'default',
      retrying: 7,
      error: { message: 'NO_ROUTE' },
      workers: 2,
      down: 1,
      unserved: false,
      reason: 'connect ECONNREFUSED',
    },
    { name: 'audit', retrying: 0, error: null, workers: 0, down: 0, unserved: true, reason: null },
    { name: 'idle', unserved: false },
  ])
  expect(workersView(status).workers.map(({ down }) => down)).toEqual([
    [{ relay: 'default', reason: 'connect ECONNREFUSED' }],
    [],
  ])
})

it('doctor reports messages of a relay as an error if no live worker reaches its destination', () => {
  const errorsOf = (relays: StoreStatus['relays'], workers: readonly WorkerRow[]) =>
    workerFindings(statusOf({ relays, workers }), [])
      .filter(({ level }) => level === 'error')
      .map(({ message }) => message)
  const missing = ['default']
  const [there, away, alsoAway] = [worker('1'), worker('2', { missing }), worker('3', { missing })]
  expect(errorsOf([relay('default', 24)], [away, alsoAway])).toEqual([
    '24 messages of the relay default wait, and no live worker reaches its destination',
  ])
  expect(errorsOf([relay('default', 24)], [there, away])).toEqual([])
  expect(errorsOf([relay('default', 0)], [away])).toEqual([])
})
