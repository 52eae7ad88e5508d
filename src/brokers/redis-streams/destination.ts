import { asError, HapaxError } from '../../base/index.ts'
import type { Address, Confirmation, Destination, Settle } from '../../contracts/index.ts'
import type { OutgoingMessage } from '../../message/index.ts'
import type { Encoder } from '../kit/index.ts'
import type { Word } from './client.ts'
import { refusal } from './errors.ts'
import { Link, type LinkOptions, listOf, type Reply } from './link.ts'
import { run } from './scripts.ts'
import { encodeMessage } from './wire.ts'

/** What a stream needs, with every default filled in. */
export interface StreamSettings {
  readonly stream: string
  readonly encoder: Encoder
  readonly waitReplicas: number
  readonly maxBytes: number
  readonly trim: { readonly keepMs: number; readonly keepEntries: number } | undefined
  readonly links: LinkOptions
}

/** Sends messages to a stream. */
export class RedisStreamsDestination implements Destination {
  readonly name: string
  readonly address: Address
  /** A batch is added in one transaction or not at all, and messages behind a refused one of their key are not sent. */
  readonly features = { keepsOrder: true } as const
  readonly #settings: StreamSettings
  #current: Link | undefined
  #opening: Promise<Link> | undefined
  #closed = false
  #mostBytes: number
  #trimmedAt = Number.NEGATIVE_INFINITY

  constructor(settings: StreamSettings) {
    this.#settings = settings
    this.#mostBytes = settings.maxBytes
    this.name = `redis stream ${settings.stream}`
    this.address = { system: 'redis', name: settings.stream }
  }

  prepare(): Promise<void> {
    return this.#settings.links.clients.load()
  }

  publish(messages: readonly OutgoingMessage[], signal: AbortSignal, settle: Settle): void {
    const sending = messages.map((message, index) => new Sending(message, index, settle))
    const abort = (): void =>
      settleAll(sending, unavailable(new HapaxError('broker-timeout', 'Redis did not answer in time')))
    signal.addEventListener('abort', abort, { once: true })
    if (signal.aborted) abort()
    void this.#send(sending, signal)
      .catch((error: unknown) => settleAll(sending, unavailable(error)))
      .finally(() => signal.removeEventListener('abort', abort))
  }

  async reach(): Promise<void> {
    await (await this.#link()).call(['PING'])
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#current?.close()
  }

  /** Sends batch after batch. The first failure leaves the rest unsent, so that nothing overtakes it. */
  async #send(sending: readonly Sending[], signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    const link = await this.#link()
    const fitting = this.#fitting(sending)
    for (let at = 0; at < fitting.length && !signal.aborted; ) {
      const batch = nextBatch(fitting, at)
      await this.#add(link, batch)
      at += batch.length
      settleAll(batch, CONFIRMED)
      this.#trimNowAndThen(link)
    }
  }

  /** Settles messages that cannot be sent, and later ones of the same key: by their next attempt, the first one holds the key. */
  #fitting(sending: readonly Sending[]): readonly Sending[] {
    const held = new Set<string>()
    return sending.filter((each) => {
      const { key } = each.message
      const behind = key !== undefined && held.has(key)
      const error = this.#refusal(each)
      if (error === undefined && !behind) return true
      if (error !== undefined && !behind) each.settle({ status: 'refused', error })
      else
        each.settle(unavailable(new HapaxError('broker-refused', 'the message before it of the same key was refused')))
      if (key !== undefined) held.add(key)
      return false
    })
  }

  #refusal(sending: Sending): Error | undefined {
    try {
      const bytes = sending.encode(this.#settings, this.#mostBytes)
      return bytes > this.#mostBytes ? tooLarge(bytes, this.#mostBytes) : undefined
    } catch (error) {
      return asError(error)
    }
  }

  /** Adds a batch in one transaction: either all of it is in the stream, in order, or nothing. */
  async #add(link: Link, batch: readonly Sending[]): Promise<void> {
    const adds = batch.map(({ fields }) => ['XADD', this.#settings.stream, '*', ...fields])
    const commands: Word[][] = adds.length === 1 ? adds : [['MULTI'], ...adds, ['EXEC']]
    const { waitReplicas, links } = this.#settings
    if (waitReplicas === 0) return check(await link.callAll(commands))
    const replies = await link.callAll(
      [...commands, ['WAIT', `${waitReplicas}`, `${links.timeoutMs}`]],
      links.timeoutMs,
    )
    check(replies.slice(0, -1))
    checkReplicas(link, replies.at(-1), waitReplicas)
  }

  /** The current link. After a loss the next publish opens another one. */
  async #link(): Promise<Link> {
    if (this.#closed) throw closed(this.name)
    if (this.#current !== undefined && !this.#current.lost) return this.#current
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined
    })
    this.#current = await this.#opening
    return this.#current
  }

  async #open(): Promise<Link> {
    const link = await Link.open(this.#settings.links)
    try {
      await this.#learn(link)
      // Tried at once, so that a missing permission shows up now and not when memory is full.
      await this.#trim(link)
      if (this.#closed) throw closed(this.name)
      return link
    } catch (error) {
      link.close()
      throw error
    }
  }

  /** Learns the size limit of Redis, which closes the connection of a client that exceeds it. */
  async #learn(link: Link): Promise<void> {
    const reply = await link.call(['CONFIG', 'GET', 'proto-max-bulk-len']).catch((error: unknown) => {
      // Many users lack the permission for CONFIG.
      if (refusal(error) === undefined) throw error
      return null
    })
    const limit = Number(listOf(reply)[1])
    if (limit > 0) this.#mostBytes = Math.min(this.#settings.maxBytes, limit)
  }

  #trimNowAndThen(link: Link): void {
    const now = this.#settings.links.clock.monotonic()
    if (this.#settings.trim === undefined || now < this.#trimmedAt + TRIM_MS) return
    void this.#trim(link).catch(() => {
      // It worked when the link was opened, and is tried again soon.
    })
  }

  async #trim(link: Link): Promise<void> {
    const { trim, stream, links } = this.#settings
    if (trim === undefined) return
    this.#trimmedAt = links.clock.monotonic()
    await run(link, 'TRIM', [stream], [`${trim.keepMs}`, `${trim.keepEntries}`])
  }
}

/** How often a stream is trimmed. */
const TRIM_MS = 1_000
/** Bounds of one transaction, because Redis does nothing else meanwhile. */
const BATCH = 500
const BATCH_BYTES = 4 * 1024 * 1024
const CONFIRMED: Confirmation = { status: 'confirmed' }

/** A message on its way. */
class Sending {
  readonly message: OutgoingMessage
  readonly #index: number
  readonly #settle: Settle
  #settled = false
  fields: readonly Word[] = []
  bytes = 0

  constructor(message: OutgoingMessage, index: number, settle: Settle) {
    this.message = message
    this.#index = index
    this.#settle = settle
  }

  settle(confirmation: Confirmation): void {
    if (this.#settled) return
    this.#settled = true
    this.#settle(this.#index, confirmation)
  }

  /** Encodes the entry and returns its size. The characters are counted one by one only where it might be too large. */
  encode({ encoder }: StreamSettings, mostBytes: number): number {
    this.fields = encodeMessage(this.message, encoder)
    let bytes = 0
    for (const word of this.fields) bytes += word.length
    if (3 * bytes > mostBytes) bytes = this.fields.reduce((sum, word) => sum + Buffer.byteLength(word), 0)
    this.bytes = bytes
    return bytes
  }
}

function settleAll(sending: readonly Sending[], confirmation: Confirmation): void {
  for (const each of sending) each.settle(confirmation)
}

function nextBatch(sending: readonly Sending[], start: number): readonly Sending[] {
  const batch: Sending[] = []
  let bytes = 0
  for (const each of sending.slice(start, start + BATCH)) {
    if (batch.length > 0 && bytes >= BATCH_BYTES) break
    batch.push(each)
    bytes += each.bytes
  }
  return batch
}

/** Throws the first error among the replies, or inside the reply of the transaction. */
function check(replies: readonly Reply[]): void {
  const inside = replies.at(-1)
  const all = Array.isArray(inside) ? inside : replies
  for (const reply of all) if (reply instanceof Error) throw refusal(reply) ?? reply
}

/** A primary without its replicas may have been replaced without knowing it: the next link looks for the one that is. */
function checkReplicas(link: Link, reply: Reply | undefined, wanted: number): void {
  if (reply instanceof Error) throw reply
  const got = Number(reply)
  if (got >= wanted) return
  const what = `expected ${wanted} replicas to have the messages, got ${got}`
  const error = new HapaxError('broker-unavailable', what)
  link.fail(error)
  throw error
}

function closed(name: string): HapaxError {
  return new HapaxError('closed', `${name} was closed`)
}

function tooLarge(bytes: number, most: number): HapaxError {
  return new HapaxError('too-large', `expected a message of at most ${most} bytes for Redis, got ${bytes}`, {
    fields: { bytes },
  })
}

function unavailable(error: unknown): Confirmation {
  return { status: 'unavailable', error: asError(error) }
}
