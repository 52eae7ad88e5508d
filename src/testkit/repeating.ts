import assert from 'node:assert/strict'
import { asError, messageOf, pause, positiveInteger, systemClock, word } from '../base/index.ts'
import type { Outcome } from '../contracts/index.ts'
import type { IncomingMessage } from '../message/index.ts'
import { CRASH_POINTS, CrashPlan, type CrashPoint, during } from './crash-plan.ts'

/** A consumer, as far as the checks use it. */
export interface Delivered {
  readonly name: string
  readonly kind: 'transactional' | 'leased' | 'claimed'
  handle(message: IncomingMessage): Promise<Outcome>
}

/** How the rows of the application are compared. */
export interface RepeatOptions {
  /** What the handler has written, in a stable order and without generated values: it has to be the same after every delivery. */
  readonly snapshot?: () => unknown
}

/** Options of `crashAt`. */
export interface CrashOptions {
  /** For `in-handler`: after which call on `ctx.tx`. @default 1 */
  readonly after?: number
}

/** Options of `safeToRepeat`. */
export interface SafeOptions {
  /** What the handler has written, in a stable order and without generated values. */
  readonly snapshot: () => unknown
  /** Brings everything back to where it was, so that the message is new again: `reset` of `testHapax` or `testPostgres`, and your own. */
  readonly reset: () => unknown
}

/**
 * Delivers a message three times, one copy after the other and then two at once. Fails unless the first takes effect, the others are
 * duplicates, and the snapshot stays what it was after the first. Resolves with the outcome of the first.
 */
export async function deliverTwice(
  consumer: Delivered,
  message: IncomingMessage,
  options: RepeatOptions = {},
): Promise<Outcome> {
  const first = await processed(consumer, message)
  const expected = await options.snapshot?.()
  for (const outcome of [await consumer.handle(message), ...(await atOnce(consumer, message))]) {
    assert.equal(outcome.status, 'duplicate', `expected a second delivery to be a duplicate, got ${said(outcome)}`)
  }
  if (options.snapshot !== undefined) {
    assert.deepEqual(await options.snapshot(), expected, 'a second delivery has changed what the first one had written')
  }
  return first
}

/**
 * Delivers a message and lets it crash at a point, then delivers it again, as a broker would, until it is acknowledged; then once more.
 * Fails unless it has taken effect in the end. What the handler wrote is yours to check, or that of `safeToRepeat`.
 */
export async function crashAt(
  point: CrashPoint,
  consumer: Delivered,
  message: IncomingMessage,
  options: CrashOptions = {},
): Promise<void> {
  word('point', CRASH_POINTS, point)
  const after = positiveInteger('after', options.after, 1)
  const crashed = await crashOnce(point, consumer, message, after)
  const why =
    point === 'in-handler' ? `its handler makes fewer than ${after} calls on ctx.tx` : 'was it delivered before?'
  assert.ok(crashed, `expected the delivery to come to the point ${point}, and it did not: ${why}`)
}

/**
 * Shows that a handler is safe to repeat: delivers the message once, several times, concurrently, and with a crash at every point, each
 * time after a reset, and fails unless the snapshot is always that of one delivery. Resolves with the names of what was tried.
 */
export async function safeToRepeat(
  consumer: Delivered,
  message: IncomingMessage,
  { snapshot, reset }: SafeOptions,
): Promise<readonly string[]> {
  assertTransactional(consumer)
  await reset()
  await processed(consumer, message)
  const expected: unknown = await snapshot()
  const trial = new Trial(expected, snapshot, reset)
  await trial.run('delivered twice', () => deliverTwice(consumer, message))
  await trial.run('delivered twice at once', () => concurrently(consumer, message))
  for (const point of CRASH_POINTS) {
    if (point !== 'in-handler') await trial.run(`a crash ${point}`, () => crashAt(point, consumer, message))
  }
  for (let after = 1; after <= MOST_CALLS; after++) {
    const name = `a crash after call ${after} of the handler`
    if ((await trial.run(name, () => crashOnce('in-handler', consumer, message, after))) === false) break
  }
  return trial.end()
}

/** Handlers that make more calls are tested up to here. */
const MOST_CALLS = 50

/** What was tried, and what became of it. */
class Trial {
  readonly #expected: unknown
  readonly #snapshot: () => unknown
  readonly #reset: () => unknown
  readonly #tried: string[] = []
  readonly #failures: { readonly name: string; readonly error: unknown }[] = []

  constructor(expected: unknown, snapshot: () => unknown, reset: () => unknown) {
    this.#expected = expected
    this.#snapshot = snapshot
    this.#reset = reset
  }

  /** False: the point was not reached. */
  async run(name: string, deliver: () => Promise<unknown>): Promise<boolean> {
    await this.#reset()
    try {
      if ((await deliver()) === false) return false
      assert.deepEqual(await this.#snapshot(), this.#expected)
    } catch (error) {
      this.#failures.push({ name, error })
    }
    this.#tried.push(name)
    return true
  }

  end(): readonly string[] {
    const [first] = this.#failures
    if (first === undefined) return this.#tried
    const names = this.#failures.map(({ name }) => name).join('; ')
    const { error } = first
    // Runners show the difference themselves, by `actual` and `expected`.
    const isDifference = error instanceof assert.AssertionError && error.generatedMessage
    const details = isDifference ? 'what it wrote is not what it writes in one delivery' : messageOf(asError(error))
    throw new assert.AssertionError({
      message: `the handler is not safe to repeat, with ${names}: ${details}`,
      ...(isDifference ? { actual: error.actual, expected: error.expected, operator: error.operator } : {}),
    })
  }
}

async function concurrently(consumer: Delivered, message: IncomingMessage): Promise<void> {
  const statuses = (await atOnce(consumer, message)).map(({ status }) => status).sort()
  assert.deepEqual(statuses, ['duplicate', 'processed'], 'expected one of two concurrent deliveries to take effect')
}

function atOnce(consumer: Delivered, message: IncomingMessage): Promise<Outcome[]> {
  return Promise.all([consumer.handle(message), consumer.handle(message)])
}

/** False: the point was not reached. */
async function crashOnce(
  point: CrashPoint,
  consumer: Delivered,
  message: IncomingMessage,
  after: number,
): Promise<boolean> {
  assertTransactional(consumer)
  const plan = new CrashPlan(point, after, consumer.name, message.id)
  const first = await during(plan, () => consumer.handle(message).catch(() => undefined))
  assertHandled(first)
  assert.notEqual(
    plan.state,
    'waiting',
    'expected the store of the consumer to be one that can crash: make its hapax with testHapax, or with crashable(store)',
  )
  if (plan.state !== 'crashed') return false
  const outcome = await untilAcknowledged(consumer, message)
  assert.ok(
    outcome.status === 'processed' || outcome.status === 'duplicate',
    `expected the message to take effect when it is delivered again, got ${said(outcome)}`,
  )
  const again = await consumer.handle(message)
  assert.equal(again.status, 'duplicate', `expected one more delivery to be a duplicate, got ${said(again)}`)
  return true
}

function assertTransactional({ kind }: Delivered): void {
  assert.equal(kind, 'transactional', `expected a consumer made by hapax.consumer, got a ${kind} one`)
}

/** What is only stored says nothing about the handler. */
function assertHandled(outcome: Outcome | undefined): void {
  const what = 'expected the message to be handled when it is delivered, got one that was stored for a worker'
  const advice = `test the same handler in a consumer without receive: 'store' and without order`
  assert.notEqual(outcome?.status, 'stored', `${what}: ${advice}`)
}

async function processed(consumer: Delivered, message: IncomingMessage): Promise<Outcome> {
  const outcome = await consumer.handle(message)
  assertHandled(outcome)
  assert.equal(outcome.status, 'processed', `expected the message to be processed, got ${said(outcome)}`)
  return outcome
}

const MOST_DELIVERIES = 20

/** As a broker does: what is not acknowledged is delivered again. */
async function untilAcknowledged(consumer: Delivered, message: IncomingMessage): Promise<Outcome> {
  for (let delivery = 1; ; delivery++) {
    const outcome = await consumer.handle({ ...message, redelivered: true })
    if (outcome.ack || delivery === MOST_DELIVERIES) return outcome
    await pause(systemClock, 10)
  }
}

function said({ status, error }: Outcome): string {
  return error === undefined ? status : `${status}: ${error.message}`
}
