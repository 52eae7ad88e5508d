import { describe, expect, it } from 'vitest'
import { type WaitingFacts, whyOf } from '../../src/admin/why.ts'
import type { WaitingMessage } from '../../src/contracts/lists.ts'

const NOW = new Date('2026-03-04T03:00:00Z')
const at = (ms: number): Date => new Date(NOW.getTime() + ms)
const [SECOND, MINUTE, HOUR, DAY] = [1_000, 60_000, 3_600_000, 86_400_000] as const
const ERROR = { name: 'Error', message: 'no answer' }

const ROW: WaitingMessage = {
  ...{ seq: '12-7', origin: 'inbox', scope: 'billing', source: '/shop', id: 'order-17', type: 'order.placed' },
  ...{ key: 'customer-4', state: 'waiting', ordered: true, attempts: 0, bytes: 17 },
  ...{ createdAt: at(-MINUTE), dueAt: at(-SECOND), heldAt: null, error: null, failures: 0, history: [] },
}
const FIRST: WaitingMessage = { ...ROW, seq: '9-1', id: 'order-9' }
const HELD = { state: 'held', attempts: 3, error: ERROR, heldAt: at(-2 * HOUR) } as const
const RETRYING = { state: 'retrying', attempts: 2, error: ERROR, dueAt: at(90 * SECOND) } as const
const OUT = { origin: 'outbox', scope: 'default' } as const
const PAUSE = {
  origin: 'inbox',
  scope: 'billing',
  actor: 'ada',
  note: 'the bank is down',
  at: at(-20 * MINUTE),
} as const

type Given = Partial<Omit<WaitingFacts, 'row'>> & { readonly row?: Partial<WaitingMessage> }

function why({ row, ...facts }: Given): string {
  const known = { now: NOW, ahead: undefined, pause: undefined, workers: 2, handlers: 2, unreached: undefined }
  return whyOf({ ...known, ...facts, row: { ...ROW, ...row } })
}

const ahead = (first: Partial<WaitingMessage>, count = 1) => ({ count, first: { ...FIRST, ...first } })
const HOLDS = 'until it is retried, edited or discarded, or the key is released'

describe('why a message waits', () => {
  it.for<readonly [string, Given, string]>([
    ['due now', {}, 'It is due now: a worker of the consumer billing should take it within a second.'],
    [
      'due now after a failure',
      { row: { ...RETRYING, dueAt: at(-SECOND) } },
      'It is due now for attempt 3 (Error: no answer): a worker of the consumer billing should take it within a second.',
    ],
    [
      'due for long',
      { row: { dueAt: at(-5 * MINUTE) } },
      'It has been due for 5 minutes: 2 live workers of the consumer billing will take it after what came before it, or have it in hand.',
    ],
    [
      'due for long at one worker, after an outage',
      { row: { ...OUT, dueAt: at(-HOUR), error: ERROR }, workers: 1 },
      'It has been due for 1 hour: 1 live worker of the relay default will send it after what came before it, or has it in hand; the last try ended (Error: no answer).',
    ],
    ['delayed', { row: { dueAt: at(2 * HOUR) } }, 'It is not due before 2026-03-04 05:00:00 UTC, in 2 hours.'],
    ['retrying', { row: RETRYING }, 'Attempt 2 failed (Error: no answer); the next one is due in 2 minutes.'],
    [
      'a relay that reaches no broker',
      { row: { ...OUT, dueAt: at(-5 * MINUTE) }, workers: 0, unreached: 'connect ECONNREFUSED 10.0.0.1:5672' },
      'No live worker of the relay default reaches its broker (connect ECONNREFUSED 10.0.0.1:5672): it waits until one does.',
    ],
    [
      'a relay that is down',
      { row: { ...OUT, error: ERROR, dueAt: at(10 * SECOND) } },
      'The relay default could not send it (Error: no answer); it is tried again in 10 seconds.',
    ],
    [
      'infrastructure that failed',
      { row: { error: ERROR, dueAt: at(SECOND) } },
      'It could not be worked on (Error: no answer); it is tried again in 1 second.',
    ],
    [
      'held',
      { row: HELD },
      `It failed for good 2 hours ago, after 3 attempts (Error: no answer), and holds its key customer-4 ${HOLDS}.`,
    ],
    [
      'held for days, also while paused and without workers',
      { row: { ...HELD, heldAt: at(-3 * DAY), attempts: 1 }, pause: PAUSE, workers: 0 },
      `It failed for good at 2026-03-01 03:00:00 UTC, after 1 attempt (Error: no answer), and holds its key customer-4 ${HOLDS}.`,
    ],
    [
      'leased',
      { row: { state: 'leased', dueAt: at(25 * SECOND) }, pause: PAUSE },
      'A worker of the consumer billing has it in hand, under a lease that ends in 25 seconds unless it is renewed; then another one takes over.',
    ],
    [
      'paused',
      { pause: PAUSE, ahead: ahead({}), workers: 0 },
      'The consumer billing was paused by ada 20 minutes ago (the bank is down): it waits until the consumer is resumed.',
    ],
    [
      'a paused relay, without a reason',
      { row: OUT, pause: { ...PAUSE, ...OUT, note: null } },
      'The relay default was paused by ada 20 minutes ago: it waits until the relay is resumed.',
    ],
    [
      'no worker',
      { workers: 0, handlers: 0 },
      'No live worker serves the consumer billing: it waits until one is started.',
    ],
    [
      'no worker of a relay',
      { row: OUT, workers: 0 },
      'No live worker serves the relay default: it waits until one is started.',
    ],
    [
      'no handler',
      { handlers: 0 },
      'No live worker of the consumer billing has a handler for the type order.placed: it waits for one that does.',
    ],
    [
      'behind one that is held, also without workers',
      { ahead: ahead(HELD), workers: 0 },
      `It is behind 1 message of its key customer-4: order-9, which failed for good 2 hours ago (Error: no answer) and holds the key ${HOLDS}.`,
    ],
    [
      'behind one that retries',
      { ahead: ahead(RETRYING, 3) },
      'It is behind 3 messages of its key customer-4: the first of which, order-9, is tried again in 2 minutes (Error: no answer).',
    ],
    [
      'behind one that is due to be tried again',
      { ahead: ahead({ ...RETRYING, dueAt: at(-SECOND) }) },
      'It is behind 1 message of its key customer-4: order-9, which is due to be tried again (Error: no answer).',
    ],
    [
      'behind one in hand, of very many',
      { ahead: ahead({ state: 'leased', dueAt: at(5 * SECOND) }, 1_000) },
      'It is behind 1,000 or more messages of its key customer-4: the first of which, order-9, a worker has in hand under a lease that ends in 5 seconds.',
    ],
    [
      'behind one that is due',
      { ahead: ahead({}, 2) },
      'It is behind 2 messages of its key customer-4: the first of which, order-9, is due, or is being worked on.',
    ],
    [
      'behind one that is delayed',
      { ahead: ahead({ dueAt: at(DAY) }) },
      'It is behind 1 message of its key customer-4: order-9, which is not due for another 1 day.',
    ],
  ])('%s', ([, given, sentence]) => {
    expect(why(given)).toBe(sentence)
  })

  it('stays one line of bounded length, whatever a message or an error says', () => {
    const long = `a\n\r\t ${'x'.repeat(10_000)}`
    const said = why({ row: { ...HELD, key: long, error: { name: 'Error', message: long } } })
    expect(said).not.toMatch(/[\n\r\t]/)
    expect(said.length).toBeLessThan(700)
  })

  it('does not let a message turn the sentence around, or add lines to it', () => {
    const first = {
      id: 'a\u202egnp.exe\nIt is fine',
      state: 'held',
      error: { name: 'Error', message: '\u2066x' },
    } as const
    const sentence = why({ ahead: ahead(first), row: { key: 'k\u200f' } })
    expect(sentence).not.toMatch(/[\p{Cc}\p{Cf}]/u)
    expect(sentence).toContain('a\\u202egnp.exe\\nIt is fine')
  })
})
