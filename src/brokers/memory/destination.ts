import { HapaxError } from '../../base/index.ts'
import type { Address, Confirmation, Destination, Settle } from '../../contracts/index.ts'
import type { OutgoingMessage } from '../../message/index.ts'

const CONFIRMED: Confirmation = { status: 'confirmed' }

/** A topic that a relay sends to. A message is confirmed as soon as every queue of the topic has it. */
export class MemoryDestination implements Destination {
  readonly name: string
  readonly address: Address
  readonly features = { keepsOrder: true }
  readonly #send: (messages: readonly OutgoingMessage[]) => void
  #closed = false

  constructor(topic: string, send: (messages: readonly OutgoingMessage[]) => void) {
    this.name = `memory topic ${topic}`
    this.address = { system: 'memory', name: topic }
    this.#send = send
  }

  prepare(): Promise<void> {
    return Promise.resolve()
  }

  publish(messages: readonly OutgoingMessage[], signal: AbortSignal, settle: Settle): void {
    const reason = this.#closed ? `${this.name} is closed` : signal.aborted ? 'the send was aborted' : undefined
    if (reason === undefined) this.#send(messages)
    const answer = reason === undefined ? CONFIRMED : unavailable(reason)
    for (const index of messages.keys()) settle(index, answer)
  }

  async close(): Promise<void> {
    this.#closed = true
  }
}

function unavailable(reason: string): Confirmation {
  return { status: 'unavailable', error: new HapaxError('broker-unavailable', `nothing was sent: ${reason}`) }
}
