import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { HapaxError } from '../../src/base/index.ts'
import { Questions, Unanswered } from '../../src/console/limits.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const ask = (questions: Questions, key: string, load: () => Promise<unknown>): Promise<unknown> =>
  questions.ask({ key, load })
const never = (): Promise<never> => new Promise(() => {})
const outcome = (asked: Promise<unknown>): Promise<unknown> => asked.catch((error: unknown) => error)

it('asks equal questions once, and again once they are answered', async () => {
  const questions = new Questions()
  const load = vi.fn(async () => 'answer')
  expect(await Promise.all([ask(questions, 'a', load), ask(questions, 'a', load)])).toEqual(['answer', 'answer'])
  expect(load).toHaveBeenCalledTimes(1)
  await ask(questions, 'a', load)
  expect(load).toHaveBeenCalledTimes(2)
})

it('puts two questions at a time, and gives up after two seconds', async () => {
  const questions = new Questions()
  const loads = ['a', 'b', 'c'].map((key) => {
    const load = vi.fn(never)
    return { load, asked: outcome(ask(questions, key, load)) }
  })
  await vi.advanceTimersByTimeAsync(2_000)
  expect(loads.map(({ load }) => load.mock.calls.length)).toEqual([1, 1, 0])
  for (const { asked } of loads) expect(await asked).toBeInstanceOf(Unanswered)
  // Their statements may still run; after ten seconds they count as lost.
  const later = vi.fn(async () => 'later')
  const tooEarly = outcome(ask(questions, 'd', later))
  await vi.advanceTimersByTimeAsync(2_000)
  expect([await tooEarly, later.mock.calls.length]).toEqual([expect.any(Unanswered), 0])
  await vi.advanceTimersByTimeAsync(8_000)
  expect(await ask(questions, 'd', later)).toBe('later')
})

it('says what the last good answer was, and how old it is', async () => {
  const questions = new Questions()
  await ask(questions, 'a', async () => 1)
  await vi.advanceTimersByTimeAsync(5_000)
  const away = new HapaxError('store-unavailable', 'the database is away')
  const failed = await outcome(ask(questions, 'a', () => Promise.reject(away)))
  expect(failed).toMatchObject({ last: { data: 1, ageMs: 5_000 }, cause: away })
  expect(await outcome(ask(questions, 'b', () => Promise.reject(away)))).toMatchObject({ last: undefined })
})

it('passes on what hapax refuses, and keeps no turn for what is thrown at once', async () => {
  const questions = new Questions()
  const refusal = new HapaxError('not-found', 'there is no such message')
  for (let index = 0; index < 5; index++) {
    const thrown = await outcome(
      ask(questions, 'a', () => {
        throw refusal
      }),
    )
    expect(thrown).toBe(refusal)
  }
  expect(await ask(questions, 'b', async () => 'answer')).toBe('answer')
})

it('asks anew after a change: an answer that was on its way may not know it', async () => {
  const questions = new Questions()
  const old = Promise.withResolvers<string>()
  const first = ask(questions, 'a', () => old.promise)
  await questions.change(async () => {})
  expect(await ask(questions, 'a', async () => 'new')).toBe('new')
  old.resolve('old')
  expect(await first).toBe('old')
})

it('remembers a bounded number of answers', async () => {
  const questions = new Questions()
  for (let index = 0; index <= 100; index++) await ask(questions, String(index), async () => index)
  const away = (): Promise<never> => Promise.reject(new HapaxError('store-unavailable', 'away'))
  expect(await outcome(ask(questions, '0', away))).toMatchObject({ last: undefined })
  expect(await outcome(ask(questions, '100', away))).toMatchObject({ last: { data: 100 } })
})

it('remembers no answer that is too large for it', async () => {
  const questions = new Questions()
  const away = (): Promise<never> => Promise.reject(new HapaxError('store-unavailable', 'away'))
  await questions.ask({ key: 'a', load: async () => 'small' })
  await questions.ask({ key: 'a', load: async () => 'large', keeps: (data) => data === 'small' })
  expect(await outcome(ask(questions, 'a', away))).toMatchObject({ last: undefined })
})
