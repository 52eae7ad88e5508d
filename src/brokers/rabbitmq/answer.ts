import { HapaxError } from '../../base/index.ts'
import type { Confirmation, Settle } from '../../contracts/index.ts'
import type { OutgoingMessage } from '../../message/index.ts'
import type { Outgoing } from './wire.ts'

export const CONFIRMED: Confirmation = { status: 'confirmed' }

/** An outgoing message in its AMQP form, which settles once. */
export class Answer {
  readonly message: OutgoingMessage
  readonly #settle: Settle
  readonly #index: number
  settled = false
  routingKey = ''
  outgoing: Outgoing | undefined
  /** Why the server returned it. The confirm that follows a return carries no information. */
  returned: HapaxError | undefined
  /** Called when it settles, if somebody waits for that. */
  onSettled: ((confirmation: Confirmation) => void) | undefined

  constructor(message: OutgoingMessage, index: number, settle: Settle) {
    this.message = message
    this.#index = index
    this.#settle = settle
  }

  settle(confirmation: Confirmation): void {
    if (this.settled) return
    this.settled = true
    this.#settle(this.#index, confirmation)
    this.onSettled?.(confirmation)
  }

  get bytes(): number {
    return this.outgoing?.body.length ?? 0
  }
}

/** One answer for each message. When the signal aborts, those that are missing settle as unavailable. */
export function answersFor(
  messages: readonly OutgoingMessage[],
  signal: AbortSignal,
  settle: Settle,
): readonly Answer[] {
  let left = messages.length
  const settled: Settle = (index, confirmation) => {
    left -= 1
    if (left === 0) signal.removeEventListener('abort', abort)
    settle(index, confirmation)
  }
  const answers = messages.map((message, index) => new Answer(message, index, settled))
  const abort = (): void => {
    const error = new HapaxError('broker-timeout', 'RabbitMQ did not answer in time')
    for (const answer of answers) answer.settle({ status: 'unavailable', error })
  }
  if (signal.aborted) abort()
  else if (left > 0) signal.addEventListener('abort', abort)
  return answers
}
