import type { Clock, EventHub, SafeInstrument, TraceContext } from '../base/index.ts'
import { asError, expected, fieldOf, HapaxError, messageOf, object, transactionClosed } from '../base/index.ts'
import type { Entered, LocalRow, OutboxRow, Published, Store, Unit, Writes } from '../contracts/index.ts'
import {
  type Draft,
  decode,
  fingerprint,
  isIndexed,
  type MessageType,
  messageKey,
  messageType,
  type Payload,
  type PublishOptions,
  packAttributes,
  parseJson,
  payloadOf,
  type StoredMessage,
  textRule,
} from '../message/index.ts'
import { type Cause, withCause } from './cause.ts'
import { type Committed, committedLocal, committedOutbox } from './committed.ts'
import { noConsumer, overtakes, unawaited } from './publish-errors.ts'
import { checkPublish } from './publish-options.ts'
import { mayOvertake, type Prepared, placeOf, Waiting, type Watching } from './waiting.ts'
import { allInContext, inContext, typeOf, type WatchedPublish, watchedPublish } from './watched-publish.ts'

const NO_WRITES: Writes = {}

/** The publishes of one transaction of hapax. */
export interface OpenBuffer<Tx> {
  /** The publishes of the next of several handlers that overlap. They are written in the order of the handlers. */
  slot(view: Tx): Pick<OpenBuffer<Tx>, 'publish'>
  publish<In>(type: MessageType<In, unknown>, data: In, options?: PublishOptions, cause?: Cause): Promise<Published>
  /** Writes a message that was published before; its options have the context of that moment. */
  record<In>(type: MessageType<In, unknown>, data: In, options: PublishOptions): Promise<Published>
  /** Called last in the body: writes what has to be written before the commit, returns what goes with it. */
  flush(unit: Unit<Tx>): Writes | Promise<Writes>
  /** Called after the commit: emits the events and wakes workers. */
  committed(): void
  close(): void
}

/** What the publisher needs to know of its hapax. */
export interface PublisherOptions<Tx, Own> {
  readonly store: Pick<Store<Tx, Own>, 'transactions'>
  readonly source: string
  readonly delivery: 'relay' | 'local'
  /** The relay of messages that name none. */
  readonly relay: string
  readonly maxBytes: number
  readonly clock: Clock
  readonly mintId: () => string
  readonly events: EventHub
  /** Undefined: nobody watches. */
  readonly instrument: SafeInstrument | undefined
  /** The consumers of a type that this process knows. */
  readonly consumersOf: (type: string) => LocalRow['consumers']
  /** Something was committed that workers may want: these rows, or, undefined, many or unknown ones. */
  readonly wake: (rows: readonly Committed[] | undefined) => void
  /** Something was written in a transaction of the user's, who may commit it any time. */
  readonly soon: () => void
  /** These messages were written: committed, or in a transaction of the user's. */
  readonly written: (rows: readonly OutboxRow[]) => void
}

/** Turns data into messages and writes them: at once in the user's own transactions, last in those of hapax. */
export class Publisher<Tx, Own> {
  readonly #options: PublisherOptions<Tx, Own>
  readonly #buffers = new WeakMap<object, Waiting>()
  /** The places of views among those of their transaction. */
  readonly #places = new WeakMap<object, number>()

  constructor(options: PublisherOptions<Tx, Own>) {
    this.#options = options
  }

  /** Publishes in a transaction of hapax's or of the user's own. */
  publish(tx: Tx | Own, drafts: readonly Draft[]): Promise<readonly Published[]> {
    const { instrument } = this.#options
    const buffer = this.#bufferOf(tx)
    const publishing =
      instrument === undefined
        ? this.#all(tx, buffer, drafts)
        : watchedPublish(instrument, typeOf(drafts), (watched) =>
            this.#all(tx, buffer, allInContext(drafts, watched.captured), watched),
          )
    return buffer === undefined ? publishing : buffer.watch(publishing)
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

  /** Opens the buffer of a transaction of hapax's own. */
  open(unit: Pick<Unit<Tx>, 'tx' | 'mostBytes'>): OpenBuffer<Tx> {
    const { tx } = unit
    const buffer = new Waiting(unit)
    return {
      publish: this.#publishing(tx, buffer),
      record: this.#recording(tx, buffer),
      slot: (view) => {
        buffer.slots += 1
        if (isObject(view)) this.#places.set(view, buffer.slots)
        return { publish: this.#publishing(view, buffer) }
      },
      flush: (last) => (buffer.watched === undefined ? NO_WRITES : this.#flush(last, buffer, buffer.watched)),
      committed: () => this.#committed(buffer),
      close: () => {
        buffer.closed = true
        if (isObject(tx)) this.#buffers.delete(tx)
      },
    }
  }

  #publishing(tx: Tx, buffer: Waiting): OpenBuffer<Tx>['publish'] {
    if (isObject(tx)) this.#buffers.set(tx, buffer)
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

  #recording(tx: Tx, buffer: Waiting): OpenBuffer<Tx>['record'] {
    return (type, data, options) => buffer.watch(this.#one(tx, buffer, () => messageType(type).of(data, options)))
  }

  #placeOf(tx: Tx | Own): number {
    return (isObject(tx) && this.#places.get(tx)) || 0
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
    const preparing = this.#prepareAll(drafts)
    if (preparing instanceof Promise) preparing.catch(() => {})
    // Entered now and not after an asynchronous schema: by then the transaction may be over, and its client in use elsewhere.
    const entered = this.#options.store.transactions.enter(tx)
    try {
      const prepared = preparing instanceof Promise ? await preparing : preparing
      watched?.prepared(prepared)
      for (const { message } of prepared) assertFits(entered, message)
      const answers = await this.#write(entered, prepared)
      this.#options.soon()
      this.#options.written(prepared)
      return answers
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
      const prepared = await this.#prepareAll(drafts)
      watched?.prepared(prepared)
      if (buffer.closed) throw transactionClosed()
      for (const { message } of prepared) assertFits(buffer.unit, message)
      // Only an id of the publisher's own can be a duplicate, and only the insert can tell.
      const tell = this.#options.delivery === 'local' && drafts.some(({ options }) => options.id !== undefined)
      if (!tell && !drafts.some(({ options }) => options.now)) {
        const place = this.#placeOf(tx)
        for (const each of prepared) buffer.waiting.push(place === 0 ? each : { ...each, place })
        return prepared.map(({ message }) => ({ id: message.id }))
      }
      const answers = await this.#writeNow(tx, buffer, prepared)
      for (const each of prepared) buffer.written.push(each)
      return answers
    } finally {
      buffer.running -= 1
    }
  }

  /**
   * Writes messages before the end of the transaction. A waiting message of the same key must not be overtaken. With local delivery it
   * is written first, and once more at the end: the second write changes nothing, unless a savepoint was rolled back in between. An
   * outbox would have it twice, so there it is an error.
   */
  async #writeNow(tx: Tx | Own, buffer: Waiting, prepared: readonly Prepared[]): Promise<readonly Published[]> {
    const place = this.#placeOf(tx)
    const before = buffer.waiting.filter((each) => placeOf(each) <= place)
    const overtaken = before.filter((each) => prepared.some((now) => mayOvertake(now, each)))
    const [first] = overtaken
    if (first !== undefined && this.#options.delivery === 'relay') throw overtakes(first)
    const answers = await this.#write(this.#options.store.transactions.enter(tx), [...overtaken, ...prepared], buffer)
    return answers.slice(overtaken.length)
  }

  async #flush(unit: Unit<Tx>, buffer: Waiting, { failed, telling }: Watching): Promise<Writes> {
    if (buffer.running > 0) throw unawaited('returned while a publish was still running')
    if (telling.size > 0) await Promise.all(telling)
    if (failed.some(({ seen }) => !seen)) throw unawaited('did not wait for a publish, which failed')
    const prepared = buffer.waiting.splice(0)
    if (buffer.slots > 0) prepared.sort((a, b) => placeOf(a) - placeOf(b))
    for (const each of prepared) buffer.written.push(each)
    if (prepared.length === 0) return {}
    if (this.#options.delivery === 'relay') return { outbox: prepared }
    const { rows } = this.#localRows(prepared)
    if (rows.every(({ consumers }) => consumers.length > 0))
      return { local: { rows, committed: (results) => buffer.local.push({ rows, results }) } }
    // Only the database can tell whether anybody listens. Checked first: if the handler ended the transaction, these inserts would
    // commit by themselves.
    await unit.check()
    await this.#write(this.#options.store.transactions.enter(unit.tx), prepared, buffer)
    return {}
  }

  #committed(buffer: Waiting): void {
    if (buffer.written.length === 0) return
    const { events, wake, delivery, written } = this.#options
    written(buffer.written)
    for (const { message } of buffer.written) {
      const { id, source, type, key } = message
      events.emit('published', () => ({ message: { id, source, type }, ...(key === null ? {} : { key }) }))
    }
    wake(delivery === 'local' ? committedLocal(buffer.local) : committedOutbox(buffer.written))
  }

  async #write(entered: Entered, prepared: readonly Prepared[], buffer?: Waiting): Promise<readonly Published[]> {
    if (this.#options.delivery === 'local') return this.#writeLocal(entered, prepared, buffer)
    await entered.writeOutbox(prepared)
    return prepared.map(({ message }) => ({ id: message.id }))
  }

  async #writeLocal(
    entered: Entered,
    prepared: readonly Prepared[],
    buffer: Waiting | undefined,
  ): Promise<readonly Published[]> {
    const { rows, first } = this.#localRows(prepared)
    const results = await entered.writeLocal(rows)
    buffer?.local.push({ rows, results })
    const seen = new Set<string>()
    return prepared.map(({ message }) => {
      const result = results[first.get(message.messageKey) ?? -1]
      if (result === undefined || result.consumers === 0) throw noConsumer(message.type)
      const duplicate = result.fresh === 0 || seen.has(message.messageKey)
      seen.add(message.messageKey)
      return duplicate ? { id: message.id, duplicate: true } : { id: message.id }
    })
  }

  /** An id twice in one batch is one message: `first` has its place among the rows, by message key. */
  #localRows(prepared: readonly Prepared[]): { rows: readonly LocalRow[]; first: ReadonlyMap<string, number> } {
    const first = new Map<string, number>()
    const rows: LocalRow[] = []
    for (const { message, delayMs } of prepared) {
      if (first.has(message.messageKey)) continue
      first.set(message.messageKey, rows.length)
      rows.push({ message, delayMs, consumers: this.#options.consumersOf(message.type) })
    }
    return { rows, first }
  }

  /** Prepares all messages: synchronously, unless a schema is asynchronous. */
  #prepareAll(drafts: readonly Draft[]): readonly Prepared[] | Promise<readonly Prepared[]> {
    const prepared: Prepared[] = []
    for (const [index, draft] of drafts.entries()) {
      const each = this.#prepare(draft)
      if (each instanceof Promise) return this.#prepareRest(prepared, each, drafts.slice(index + 1))
      prepared.push(each)
    }
    return prepared
  }

  async #prepareRest(
    before: readonly Prepared[],
    each: Promise<Prepared>,
    rest: readonly Draft[],
  ): Promise<readonly Prepared[]> {
    return [...before, await each, ...(await this.#prepareAll(rest))]
  }

  #prepare(draft: Draft): Prepared | Promise<Prepared> {
    const { data, options } = draft ?? {}
    if (draft?.message === undefined || options === undefined) expected('drafts', 'messages made by of()', draft)
    const { message: type } = draft
    checkPublish(type, options)
    const payload = payloadOf(type.type, data, options.datacontenttype)
    const prepared = this.#stored(type, payload, data, options)
    // What the consumer will see is checked, not what the publisher holds: a Date, for example, arrives as text.
    const checked = type.parse(arriving(type.type, payload, prepared.message))
    return checked instanceof Promise ? checked.then(() => prepared) : prepared
  }

  #stored(type: Draft['message'], payload: Payload, data: unknown, options: PublishOptions): Prepared {
    const { source, mintId, clock, maxBytes } = this.#options
    const id = options.id ?? mintId()
    const { bytes } = payload
    const attributes = packAttributes({
      ...options,
      time: new Date(clock.now()).toISOString(),
      datacontenttype: payload.contentType,
    })
    const size = bytes.byteLength + Buffer.byteLength(attributes)
    if (size > maxBytes) {
      throw new HapaxError('too-large', `expected a message of at most ${maxBytes} bytes, got ${size}`, {
        fields: { type: type.type, bytes: size },
      })
    }
    const message: StoredMessage = {
      messageKey: messageKey(source, id),
      source,
      id,
      type: type.type,
      key: keyOf(type, data, options),
      attributes,
      data: bytes,
      fingerprint: fingerprint(bytes),
    }
    if (message.key !== null && options.delayMs) {
      expected(
        'delayMs',
        'absent on a message with a key, because it would hold up what comes after it',
        options.delayMs,
      )
    }
    return { message, relay: options.relay ?? this.#options.relay, delayMs: options.delayMs ?? 0 }
  }
}

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

/** What arrives at the consumer, by the same rules as there. */
function arriving(type: string, { json, contentType }: Payload, message: StoredMessage): unknown {
  try {
    return json === undefined ? decode(message, contentType) : parseJson(json)
  } catch (cause) {
    const what = `expected data of ${type} to be ${json === undefined ? contentType : 'JSON'} that a consumer takes: ${messageOf(asError(cause))}`
    throw new HapaxError('invalid-payload', what, { cause, fields: { type } })
  }
}

/** Whether a transaction can be remembered by itself: some clients have functions for transactions. */
function isObject(tx: unknown): tx is object {
  return typeof tx === 'function' || (typeof tx === 'object' && tx !== null)
}

function keyOf(type: Draft['message'], data: unknown, options: PublishOptions): string | null {
  const key = options.key ?? type.keyOf(data as never)
  if (key === undefined || key === null) return null
  if (!isIndexed(key)) expected('key', textRule('key'), key)
  return key
}
