import { asError, HapaxError } from '../../base/index.ts'
import type { Address, Confirmation, Destination, Settle } from '../../contracts/index.ts'
import { type Arrival, arrivalOf, type OutgoingMessage } from '../../message/index.ts'
import type { Encoder } from '../kit/index.ts'

const CONFIRMED: Confirmation = { status: 'confirmed' }

/** A topic that a relay sends to. A message is confirmed as soon as every queue of the topic has it. */
export class MemoryDestination implements Destination {
  readonly name: string
  readonly address: Address
  readonly features = { keepsOrder: true }
  readonly #encoder: Encoder
  readonly #send: (arrivals: readonly Arrival[]) => void
  #closed = false

  constructor(topic: string, encoder: Encoder, send: (arrivals: readonly Arrival[]) => void) {
    this.name = `memory topic ${topic}`
    this.address = { system: 'memory', name: topic }
    this.#encoder = encoder
    this.#send = send
  }

  prepare(): Promise<void> {
    return Promise.resolve()
  }

  publish(messages: readonly OutgoingMessage[], signal: AbortSignal, settle: Settle): void {
    const reason = this.#closed ? `${this.name} is closed` : signal.aborted ? 'the send was aborted' : undefined
    const arrivals: Arrival[] = []
    const answers = reason === undefined ? this.#encode(messages, arrivals) : messages.map(() => unavailable(reason))
    this.#send(arrivals)
    for (const [index, answer] of answers.entries()) settle(index, answer)
  }

  async reach(): Promise<void> {
    if (this.#closed) throw new HapaxError('broker-unavailable', `${this.name} is closed`)
  }

  /** Adds what can be sent to `arrivals`. Behind a message that cannot, those of its key wait. */
  #encode(messages: readonly OutgoingMessage[], arrivals: Arrival[]): readonly Confirmation[] {
    const held = new Set<string>()
    return messages.map((message) => {
      const { key } = message
      if (key !== undefined && held.has(key)) return unavailable('the message before it of the same key was refused')
      try {
        arrivals.push(this.#arrival(message))
        return CONFIRMED
      } catch (error) {
        if (key !== undefined) held.add(key)
        return { status: 'refused', error: asError(error) }
      }
    })
  }

  #arrival(message: OutgoingMessage): Arrival {
    if (this.#encoder.isBinaryEvent) return arrivalOf(message, false)
    const { plain, headers, contentType, body } = this.#encoder.encode(message)
    const all = Object.fromEntries([...headers, ...plain])
    return { body, contentType, attributes: {}, headers: all, properties: {}, redelivered: false, refused: undefined }
  }

  async close(): Promise<void> {
    this.#closed = true
  }
}

function unavailable(reason: string): Confirmation {
  return { status: 'unavailable', error: new HapaxError('broker-unavailable', `nothing was sent: ${reason}`) }
}
