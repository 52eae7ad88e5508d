import type { EventHub, SafeInstrument, TraceContext } from '../base/index.ts'
import { expected, fieldOf, HapaxError, object, transactionClosed } from '../base/index.ts'
import type { Published, Store, Unit, Writes } from '../contracts/index.ts'
import { type Draft, type MessageType, messageType, type PublishOptions, type StoredMessage } from '../message/index.ts'
import { type CauseOf, Inside, type Publishes, publishInside, type Span } from './ambient.ts'
import { type Cause, withCause } from './cause.ts'
import { type Committed, committedRows } from './committed.ts'
import { type PrepareOptions, prepareAll } from './prepare.ts'
import { overtakes, unawaited } from './publish-errors.ts'
import { mayOvertake, type Prepared, slotOf, toRelay, Waiting, type Watch, type Watching } from './waiting.ts'
import { allInContext, inContext, typeOf, type WatchedPublish, watchedPublish } from './watched-publish.ts'
import { type ConsumersOf, divided, localRows, writeAll } from './writing.ts'

const NO_WRITES: Writes = {}

/** Calls code where services look for the transaction; returns what it returned. */
type Around<Tx> = <T>(tx: Tx, call: () => T) => T

/** The publishes of one transaction of hapax, or of one of several handlers that overlap in it. */
export interface PublishBuffer extends Publishes {
  /** Calls a handler whose publishes without `tx` go here. */
  around<Args extends unknown[], T>(causeOf: CauseOf | undefined, call: (...args: Args) => T, ...args: Args): T
  /** The same for what is called next, inside an outer call of `around`. Undefined: only `around` will do. */
  readonly enter: ((causeOf: CauseOf | undefined) => void) | undefined
}

/** All publishes of one transaction of hapax. */
export interface OpenBuffer<Tx> extends PublishBuffer {
  /** The publishes of the next of several handlers that overlap. They are written in the order of the handlers. */
  slot(view: Tx): PublishBuffer
  /** Writes a message that was published before; its options have the context of that moment. */
  record<In>(type: MessageType<In, unknown>, data: In, options: PublishOptions): Promise<Published>
  /** The first outside query of the handlers that was refused. */
  refused(): HapaxError | undefined
  /** Called last in the body: writes what has to be written before the commit, returns what goes with it. */
  flush(unit: Unit<Tx>): Writes | Promise<Writes>
  /** Called after the commit: emits the events and wakes workers. */
  committed(): void
  close(): void
}

/** What the publisher needs to know of its hapax. */
export interface PublisherOptions<Tx, Own> extends PrepareOptions {
  readonly store: Pick<Store<Tx, Own>, 'transactions'>
  /** The user's own calls of handlers. */
  readonly around: Around<Tx> | undefined
  readonly events: EventHub
  /** Undefined: nobody watches. */
  readonly instrument: SafeInstrument | undefined
  readonly consumersOf: ConsumersOf
  /** Something was committed that workers may want: these rows, or, undefined, many or unknown ones. */
  readonly wake: (rows: readonly Committed[] | undefined) => void
  /** Something was written in a transaction of the user's, who may commit it any time. */
  readonly soon: () => void
  /** These messages were written: committed, or in a transaction of the user's. */
  readonly written: (messages: readonly Prepared[]) => void
}

/** Turns data into messages and writes them: at once in the user's own transactions, last in those of hapax. */
export class Publisher<Tx, Own> {
  readonly #options: PublisherOptions<Tx, Own>
  readonly #buffers = new WeakMap<object, Waiting>()
  /** The slots of views in their transactions. */
  readonly #slots = new WeakMap<object, number>()

  constructor(options: PublisherOptions<Tx, Own>) {
    this.#options = options
  }

  /** Publishes in a transaction of hapax's or of the user's own. */
  publish(tx: Tx | Own, drafts: readonly Draft[]): Promise<readonly Published[]> {
    return this.#many(tx, this.#bufferOf(tx), drafts)
  }

  /** The same for one message; `draft` may throw. */
  publishOne(tx: Tx | Own, type: MessageType<never, unknown>, draft: () => Draft): Promise<Published> {
    const { instrument } = this.#options
    const buffer = this.#bufferOf(tx)
    const publishing =
      instrument === undefined
        ? this.#one(tx, buffer, draft)
        : watchedPublish(instrument, fieldOf(type, 'type'), (watched) =>
            this.#one(tx, buffer, () => inContext(draft(), watched.captured), watched),
          )
    return buffer === undefined ? publishing : buffer.watch(publishing)
  }

  /** Publishes in the transaction that the calling code is inside of. */
  publishHere(drafts: readonly Draft[]): Promise<readonly Published[]> {
    return publishInside(this, (publishes, cause) => publishes.publishMany(drafts, cause))
  }

  /** The same for one message. */
  publishOneHere<In>(type: MessageType<In, unknown>, data: In, options?: PublishOptions): Promise<Published> {
    return publishInside(this, (publishes, cause) => publishes.publish(type, data, options, cause))
  }

  /** Calls a handler that has no transaction for as long as the span is not closed. */
  without<T>(span: Span, call: () => T): T {
    return new Inside(this, undefined, span).run(call)
  }

  /** Opens the buffer of a transaction of hapax's own. */
  open(unit: Pick<Unit<Tx>, 'tx' | 'mostBytes'>, watch?: Watch): OpenBuffer<Tx> {
    const { tx } = unit
    const buffer = new Waiting(unit, watch)
    return {
      ...this.#buffer(tx, buffer),
      record: this.#recording(tx, buffer),
      slot: (view) => {
        buffer.slots += 1
        if (isObject(view)) this.#slots.set(view, buffer.slots)
        return this.#buffer(view, buffer)
      },
      refused: () => buffer.refused,
      flush: (last) => (buffer.watched === undefined ? NO_WRITES : this.#flush(last, buffer, buffer.watched)),
      committed: () => this.#committed(buffer),
      close: () => {
        buffer.closed = true
        if (isObject(tx)) this.#buffers.delete(tx)
      },
    }
  }

  #buffer(tx: Tx, buffer: Waiting): PublishBuffer {
    if (isObject(tx)) this.#buffers.set(tx, buffer)
    const { around } = this.#options
    const publishes: PublishBuffer = {
      publish: this.#publishing(tx, buffer),
      publishMany: (drafts, cause) => this.#many(tx, buffer, drafts, cause),
      around: (causeOf, call, ...args) => {
        const inside = new Inside(this, publishes, buffer, causeOf)
        if (around === undefined) return inside.run(call, ...args)
        return inside.run(() => calledAround(around, tx, () => call(...args)))
      },
      enter: around === undefined ? (causeOf) => new Inside(this, publishes, buffer, causeOf).enter() : undefined,
    }
    return publishes
  }

  #publishing(tx: Tx, buffer: Waiting): Publishes['publish'] {
    return (type, data, options = {}, cause) => {
      const { instrument } = this.#options
      const draft = (captured?: TraceContext): Draft => {
        // Checked before it is merged: the merged object would hide that this is not one.
        object('options of publish', options)
        return messageType(type).of(data, withCause(cause, options, captured))
      }
      if (instrument === undefined) return buffer.watch(this.#one(tx, buffer, draft))
      const publishing = watchedPublish(instrument, fieldOf(type, 'type'), (watched) =>
        this.#one(tx, buffer, () => draft(watched.captured), watched),
      )
      return buffer.watch(publishing)
    }
  }

  #many(
    tx: Tx | Own,
    buffer: Waiting | undefined,
    drafts: readonly Draft[],
    cause?: Cause,
  ): Promise<readonly Published[]> {
    const { instrument } = this.#options
    const publishing =
      instrument === undefined
        ? this.#all(tx, buffer, allInContext(drafts, undefined, cause))
        : watchedPublish(instrument, typeOf(drafts), (watched) =>
            this.#all(tx, buffer, allInContext(drafts, watched.captured, cause), watched),
          )
    return buffer === undefined ? publishing : buffer.watch(publishing)
  }

  #recording(tx: Tx, buffer: Waiting): OpenBuffer<Tx>['record'] {
    return (type, data, options) => buffer.watch(this.#one(tx, buffer, () => messageType(type).of(data, options)))
  }

  #slotOf(tx: Tx | Own): number {
    return (isObject(tx) && this.#slots.get(tx)) || 0
  }

  #bufferOf(tx: Tx | Own): Waiting | undefined {
    return isObject(tx) ? this.#buffers.get(tx) : undefined
  }

  async #one(
    tx: Tx | Own,
    buffer: Waiting | undefined,
    draft: () => Draft,
    watched?: WatchedPublish,
  ): Promise<Published> {
    const [published] = await this.#all(tx, buffer, [draft()], watched)
    if (published === undefined) throw new Error('expected one answer for one message, got none')
    return published
  }

  async #all(
    tx: Tx | Own,
    buffer: Waiting | undefined,
    drafts: readonly Draft[],
    watched?: WatchedPublish,
  ): Promise<readonly Published[]> {
    if (!Array.isArray(drafts)) expected('drafts', 'a list of messages made by of()', drafts)
    if (drafts.length === 0) return []
    if (buffer !== undefined) return this.#buffered(tx, buffer, drafts, watched)
    const preparing = prepareAll(this.#options, drafts)
    if (preparing instanceof Promise) preparing.catch(() => {})
    // Entered now and not after an asynchronous schema: by then the transaction may be over, and its client in use elsewhere.
    const entered = this.#options.store.transactions.enter(tx)
    try {
      const prepared = preparing instanceof Promise ? await preparing : preparing
      watched?.prepared(prepared)
      for (const { message } of prepared) assertFits(entered, message)
      const told = await writeAll(entered, prepared, this.#options.consumersOf)
      this.#options.soon()
      this.#options.written(prepared)
      return prepared.map((each) => told.get(each) ?? { id: each.message.id })
    } catch (error) {
      entered.leave()
      throw error
    }
  }

  async #buffered(
    tx: Tx | Own,
    buffer: Waiting,
    drafts: readonly Draft[],
    watched: WatchedPublish | undefined,
  ): Promise<readonly Published[]> {
    buffer.running += 1
    try {
      const prepared = await prepareAll(this.#options, drafts)
      watched?.prepared(prepared)
      if (buffer.closed) throw transactionClosed()
      for (const { message } of prepared) assertFits(buffer.unit, message)
      const now = dueNow(prepared, drafts)
      // Before the others, which must not stay if this is refused.
      const told = now.size === 0 ? undefined : await this.#writeNow(tx, buffer, [...now])
      const slot = this.#slotOf(tx)
      for (const each of prepared) {
        if (!now.has(each)) buffer.waiting.push(slot === 0 ? each : { ...each, slot })
      }
      return prepared.map((each) => told?.get(each) ?? { id: each.message.id })
    } finally {
      buffer.running -= 1
    }
  }

  /**
   * Writes messages before the end of the transaction. A waiting message of the same key must not be overtaken. With local delivery it
   * is written first, and once more at the end: the second write changes nothing, unless a savepoint was rolled back in between. An
   * outbox would have it twice, so there it is an error.
   */
  async #writeNow(tx: Tx | Own, buffer: Waiting, now: readonly Prepared[]): Promise<ReadonlyMap<Prepared, Published>> {
    const { store, consumersOf } = this.#options
    const slot = this.#slotOf(tx)
    const before = buffer.waiting.filter((each) => slotOf(each) <= slot)
    const overtaken = before.filter((each) => now.some((written) => mayOvertake(written, each)))
    const first = overtaken.find(toRelay)
    if (first !== undefined) throw overtakes(first)
    const told = await writeAll(store.transactions.enter(tx), [...overtaken, ...now], consumersOf, buffer)
    for (const each of now) buffer.written.push(each)
    return told
  }

  async #flush(unit: Unit<Tx>, buffer: Waiting, { failed, telling }: Watching): Promise<Writes> {
    if (buffer.running > 0) throw unawaited('returned while a publish was still running')
    if (telling.size > 0) await Promise.all(telling)
    if (failed.some(({ seen }) => !seen)) throw unawaited('did not wait for a publish, which failed')
    const prepared = buffer.waiting.splice(0)
    if (buffer.slots > 0) prepared.sort((a, b) => slotOf(a) - slotOf(b))
    for (const each of prepared) buffer.written.push(each)
    const { outbox, local } = divided(prepared)
    if (local.length === 0) return outbox.length === 0 ? NO_WRITES : { outbox }
    const { store, consumersOf } = this.#options
    const { rows } = localRows(local, consumersOf)
    if (rows.every(({ consumers }) => consumers.length > 0))
      return { outbox, local: { rows, committed: (results) => buffer.local.push({ rows, results }) } }
    // Only the database can tell whether anybody listens. Checked first: if the handler ended the transaction, these inserts would
    // commit by themselves.
    await unit.check()
    await writeAll(store.transactions.enter(unit.tx), local, consumersOf, buffer)
    return { outbox }
  }

  #committed(buffer: Waiting): void {
    if (buffer.written.length === 0) return
    const { events, wake, written } = this.#options
    written(buffer.written)
    for (const { message } of buffer.written) {
      const { id, source, type, key } = message
      events.emit('published', () => ({ message: { id, source, type }, ...(key === null ? {} : { key }) }))
    }
    wake(committedRows(buffer.written.filter(toRelay), buffer.local))
  }
}

/**
 * Which of these messages are written at once: all, if one of them is to be; or the local ones, if one has an id of the publisher's own,
 * because only that can be a duplicate, and only the insert can tell.
 */
function dueNow(prepared: readonly Prepared[], drafts: readonly Draft[]): ReadonlySet<Prepared> {
  if (drafts.some(({ options }) => options.now)) return new Set(prepared)
  const telling = prepared.some((each, index) => !toRelay(each) && drafts[index]?.options.id !== undefined)
  return telling ? new Set(prepared.filter((each) => !toRelay(each))) : NONE
}

const NONE: ReadonlySet<Prepared> = new Set()

/** Refuses a message that the database cannot take. At publish, because the write at the end would fail far from the line that published it. */
function assertFits(transaction: Pick<Unit<unknown>, 'mostBytes'>, { type, data, attributes }: StoredMessage): void {
  const most = transaction.mostBytes() - COLUMNS_BYTES
  const bytes = data.byteLength + Buffer.byteLength(attributes)
  if (bytes <= most) return
  const what = `expected a message of at most ${most} bytes, which is what the database takes at once, got ${bytes}`
  throw new HapaxError('too-large', what, { fields: { type, bytes } })
}

/** Room for the statement and for source, id, type and key. */
const COLUMNS_BYTES = 32 * 1024

/** Whether a transaction can be remembered by itself: some clients have functions for transactions. */
function isObject(tx: unknown): tx is object {
  return typeof tx === 'function' || (typeof tx === 'object' && tx !== null)
}

/**
 * Calls the user's `around`. It has to call what it is given before it returns, and its result does not count: otherwise the transaction
 * could commit before the handler has run.
 */
function calledAround<Tx, T>(around: Around<Tx>, tx: Tx, call: () => T): T {
  let made: { readonly value: T } | undefined
  let isOver = false
  const returned: unknown = around(tx, () => {
    if (isOver || made !== undefined) throw notOnce()
    made = { value: call() }
    return made.value
  })
  isOver = true
  if (made === undefined) {
    if (returned instanceof Promise) returned.catch(() => {})
    throw notOnce()
  }
  const { value }: { readonly value: T } = made
  if (!(value instanceof Promise)) return value
  return Promise.all([value, returned]).then(() => value) as T
}

function notOnce(): HapaxError {
  return new HapaxError(
    'invalid-option',
    'expected around to call the function that it is given once, before it returns',
  )
}
