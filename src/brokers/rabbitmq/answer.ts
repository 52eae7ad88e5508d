import { HapaxError } from '../../base/index.ts'
import type { Confirmation, Settle } from '../../contracts/index.ts'
import type { OutgoingMessage } from '../../message/index.ts'
import type { Encoder } from '../kit/index.ts'
import { bufferOf, encodeMessage, type Outgoing } from './wire.ts'

export const CONFIRMED: Confirmation = { status: 'confirmed' }

/** A message on its way, which settles once. */
export class Answer {
  readonly message: OutgoingMessage
  readonly #encoder: Encoder
  readonly #index: number
  readonly #settle: Settle
  #outgoing: Outgoing | undefined
  settled = false
  routingKey = ''
  /** Why the server returned it. The confirm that follows a return carries no information. */
  returned: HapaxError | undefined
  /** Called when it settles, if somebody waits for that. */
  onSettled: ((confirmation: Confirmation) => void) | undefined

  constructor(message: OutgoingMessage, encoder: Encoder, index: number, settle: Settle) {
    this.message = message
    this.#encoder = encoder
    this.#index = index
    this.#settle = settle
  }

  /** Whether its attributes travel as they are: no envelope, and no headers that need to be checked. */
  get isPlain(): boolean {
    return this.#encoder.isBinaryEvent && this.message.headers === undefined
  }

  /** Its AMQP form for `amqplib`. Throws for what the protocol cannot carry. */
  get outgoing(): Outgoing {
    this.#outgoing ??= encodeMessage(this.message, this.#encoder)
    return this.#outgoing
  }

  get body(): Buffer {
    return this.isPlain ? bufferOf(this.message.data) : this.outgoing.body
  }

  settle(confirmation: Confirmation): void {
    if (this.settled) return
    this.settled = true
    this.#settle(this.#index, confirmation)
    this.onSettled?.(confirmation)
  }
}

/** One answer for each message. When the signal aborts, those that are missing settle as unavailable. */
export function answersFor(
  messages: readonly OutgoingMessage[],
  encoder: Encoder,
  signal: AbortSignal,
  settle: Settle,
): readonly Answer[] {
  let left = messages.length
  const settled: Settle = (index, confirmation) => {
    left -= 1
    if (left === 0) signal.removeEventListener('abort', abort)
    settle(index, confirmation)
  }
  const answers = messages.map((message, index) => new Answer(message, encoder, index, settled))
  const abort = (): void => {
    const error = new HapaxError('broker-timeout', 'RabbitMQ did not answer in time')
    for (const answer of answers) answer.settle({ status: 'unavailable', error })
  }
  if (signal.aborted) abort()
  else if (left > 0) signal.addEventListener('abort', abort)
  return answers
}
