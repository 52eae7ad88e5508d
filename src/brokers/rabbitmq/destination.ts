import { asError, HapaxError } from '../../base/index.ts'
import type { Address, Confirmation, Destination, Settle } from '../../contracts/index.ts'
import type { OutgoingMessage } from '../../message/index.ts'
import { type Answer, answersFor } from './answer.ts'
import type { Link } from './link.ts'
import type { ExchangeSettings } from './options.ts'
import { type Ended, Sender } from './sender.ts'

/** An exchange that a relay sends to. */
export class RabbitmqDestination implements Destination {
  readonly name: string
  readonly address: Address
  /** Later messages overtake one that is returned, or that a queue refuses. */
  readonly features = { keepsOrder: false }
  readonly #settings: ExchangeSettings
  readonly #link: Link
  readonly #main: Outlet
  /** For suspects: one of them made the server close the channel. They are sent one by one, until it is known which. */
  readonly #apart: Outlet
  readonly #suspects = new Set<string>()
  #maxBytes: number
  #turn: Promise<unknown> = Promise.resolve()
  #used = false
  #closing: Promise<void> | undefined

  constructor(link: Link, settings: ExchangeSettings) {
    this.name = `rabbitmq exchange ${settings.place.name || '(default)'}`
    this.address = { system: 'rabbitmq', name: settings.place.name || 'amq.default' }
    this.#settings = settings
    this.#link = link
    this.#maxBytes = settings.maxMessageBytes
    const open = (): Promise<Sender> => Sender.open(link, settings, (ended) => this.#ended(ended))
    this.#main = new Outlet(open)
    this.#apart = new Outlet(open)
  }

  prepare(): Promise<void> {
    return this.#link.prepare()
  }

  publish(messages: readonly OutgoingMessage[], signal: AbortSignal, settle: Settle): void {
    const answers = answersFor(messages, this.#settings.encoder, signal, settle)
    if (this.#closing !== undefined) {
      const error = this.#closedError()
      for (const answer of answers) answer.settle({ status: 'unavailable', error })
    } else {
      this.#acquire()
      this.#send(answers.filter((answer) => this.#prepare(answer)))
    }
  }

  reach(): Promise<void> {
    if (this.#closing !== undefined) return Promise.reject(this.#closedError())
    this.#acquire()
    return this.#main.reach()
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  #closedError(): HapaxError {
    return new HapaxError('broker-unavailable', `${this.name} was closed`)
  }

  #acquire(): void {
    if (this.#used) return
    this.#used = true
    this.#link.acquire()
  }

  async #close(): Promise<void> {
    const answers = await Promise.all([this.#main.close(), this.#apart.close()])
    if (this.#used) await this.#link.release(!answers.includes(false))
  }

  /** False: the message cannot be sent, and is settled. */
  #prepare(answer: Answer): boolean {
    const { message } = answer
    try {
      answer.routingKey = this.#settings.routingKey(message)
    } catch (thrown) {
      answer.settle({ status: 'failed', error: asError(thrown) })
      return false
    }
    let bytes: number
    try {
      bytes = answer.body.length
    } catch (thrown) {
      answer.settle({ status: 'refused', error: asError(thrown) })
      return false
    }
    if (bytes <= this.#maxBytes) return true
    const what = `expected a message of at most ${this.#maxBytes} bytes, got ${bytes}`
    answer.settle({ status: 'refused', error: new HapaxError('too-large', what, { fields: { bytes } }) })
    return false
  }

  #send(answers: readonly Answer[]): void {
    const [suspects, others] = this.#suspects.size === 0 ? [[], answers] : this.#parted(answers)
    if (others.length > 0) this.#main.send(others)
    for (const answer of suspects) this.#sendApart(answer)
  }

  #parted(answers: readonly Answer[]): readonly [suspects: readonly Answer[], others: readonly Answer[]] {
    const parted = Map.groupBy(answers, ({ message }) => this.#suspects.has(identity(message)))
    return [parted.get(true) ?? [], parted.get(false) ?? []]
  }

  /** Sends suspects one at a time, each after the answer to the one before. */
  #sendApart(answer: Answer): void {
    this.#turn = this.#turn.then(async () => {
      if (answer.settled) return
      const { promise: settled, resolve } = Promise.withResolvers<Confirmation>()
      answer.onSettled = resolve
      this.#apart.send([answer])
      const { status } = await settled
      // A message that failed will be sent again, and may close the channel again.
      if (status === 'confirmed' || status === 'refused') this.#suspects.delete(identity(answer.message))
    })
  }

  #ended({ suspects, maxBytes }: Ended): void {
    if (maxBytes !== undefined) this.#maxBytes = Math.min(this.#maxBytes, maxBytes)
    if (this.#suspects.size > MOST_SUSPECTS) this.#suspects.clear()
    for (const { message } of suspects) this.#suspects.add(identity(message))
  }
}

/** More than are ever under way. Beyond it, suspects that were never sent again are forgotten. */
const MOST_SUSPECTS = 20_000

function identity({ source, id }: OutgoingMessage): string {
  return JSON.stringify([source, id])
}

/** A sender that is opened on first use, and again after it has ended. */
class Outlet {
  readonly #open: () => Promise<Sender>
  #sender: Sender | undefined
  #opening: Promise<Sender> | undefined
  #closed = false

  constructor(open: () => Promise<Sender>) {
    this.#open = open
  }

  send(answers: readonly Answer[]): void {
    if (this.#sender?.isOpen) this.#sender.send(answers)
    else void this.#sendLater(answers)
  }

  async reach(): Promise<void> {
    if (!this.#sender?.isOpen) await this.#opened()
  }

  /** False: the server no longer responds. */
  async close(): Promise<boolean> {
    this.#closed = true
    return (await this.#sender?.close()) ?? true
  }

  async #sendLater(answers: readonly Answer[]): Promise<void> {
    try {
      const sender = await this.#opened()
      sender.send(answers)
    } catch (thrown) {
      for (const answer of answers) answer.settle({ status: 'unavailable', error: asError(thrown) })
    }
  }

  #opened(): Promise<Sender> {
    this.#opening ??= this.#openOne().finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  async #openOne(): Promise<Sender> {
    const sender = await this.#open()
    this.#sender = sender
    if (this.#closed) await sender.close()
    return sender
  }
}
