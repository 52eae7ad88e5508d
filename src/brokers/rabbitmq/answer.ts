import { HapaxError } from '../../base/index.ts'
import type { Confirmation } from '../../contracts/index.ts'
import type { OutgoingMessage } from '../../message/index.ts'
import type { Outgoing } from './wire.ts'

export const CONFIRMED: Confirmation = { status: 'confirmed' }

/** An outgoing message in its AMQP form, and the promise of its answer, which settles once. */
export class Answer {
  readonly promise: Promise<Confirmation>
  readonly message: OutgoingMessage
  readonly #settled: () => void
  #resolve: (confirmation: Confirmation) => void = () => {}
  settled = false
  routingKey = ''
  outgoing: Outgoing | undefined
  /** Why the server returned it. The confirm that follows a return carries no information. */
  returned: HapaxError | undefined

  constructor(message: OutgoingMessage, settled: () => void) {
    this.message = message
    this.#settled = settled
    this.promise = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  settle(confirmation: Confirmation): void {
    if (this.settled) return
    this.settled = true
    this.#resolve(confirmation)
    this.#settled()
  }

  get bytes(): number {
    return this.outgoing?.body.length ?? 0
  }
}

/** One answer for each message. When the signal aborts, those that are missing settle as unavailable. */
export function answersFor(messages: readonly OutgoingMessage[], signal: AbortSignal): readonly Answer[] {
  let left = messages.length
  const settled = (): void => {
    left -= 1
    if (left === 0) signal.removeEventListener('abort', abort)
  }
  const answers = messages.map((message) => new Answer(message, settled))
  const abort = (): void => {
    const error = new HapaxError('broker-timeout', 'RabbitMQ did not answer in time')
    for (const answer of answers) answer.settle({ status: 'unavailable', error })
  }
  if (signal.aborted) abort()
  else if (left > 0) signal.addEventListener('abort', abort)
  return answers
}
