import type { Msg, MsgHdrs } from '@nats-io/transport-node'
import { asError, type ErrorCode, HapaxError, isHapaxError, messageOf } from '../../base/index.ts'
import type { Confirmation } from '../../contracts/index.ts'
import type { OutgoingMessage } from '../../message/index.ts'
import type { Call } from './call.ts'
import { API, type ApiError, brokerError } from './errors.ts'
import type { Link } from './link.ts'
import type { StreamPlan } from './options.ts'
import { encodeMessage, subjectOf } from './wire.ts'

/** A message that the server has not confirmed or refused yet. */
interface Unanswered {
  readonly subject: string
  readonly call: Call
  readonly index: number
}

const CONFIRMED: Confirmation = { status: 'confirmed' }

/** Sends messages on one link without waiting for each other, and matches the replies to them by subject. */
export class Sender {
  readonly link: Link
  readonly #plan: StreamPlan
  readonly #inbox: string
  /** By the last part of the subject that the reply comes under. */
  readonly #unanswered = new Map<number, Unanswered>()
  readonly #unroutable: () => void
  #next = 0

  /** `unroutable` is called when no stream captures a subject: the stream may have been deleted. */
  constructor(link: Link, plan: StreamPlan, unroutable: () => void) {
    this.link = link
    this.#plan = plan
    this.#unroutable = unroutable
    this.#inbox = link.inbox()
    link.listen(`${this.#inbox}.*`, (message) => this.#hear(message))
    link.onRefusal = (subject, error) => this.#refused(subject, error)
    link.lost.addEventListener('abort', () => this.#endAll(asError(link.lost.reason)), { once: true })
  }

  /** Sends the messages of a call and settles them later, or at once those that cannot be sent. */
  send(call: Call): void {
    const first = this.#next
    call.onEnd = () => {
      for (let token = first; token < first + call.messages.length; token++) this.#unanswered.delete(token)
    }
    for (const [index, message] of call.messages.entries()) this.#send(message, call, index)
  }

  #send(message: OutgoingMessage, call: Call, index: number): void {
    const { connection, lost, client } = this.link
    const token = this.#next
    this.#next += 1
    try {
      lost.throwIfAborted()
      const headers = client.headers()
      const subject = subjectOf(message, this.#plan)
      const body = encodeMessage(message, this.#plan, headers)
      refuseLarge(sizeOf(headers) + body.byteLength, connection.info?.max_payload)
      connection.publish(subject, body, { headers, reply: `${this.#inbox}.${token}` })
      this.#unanswered.set(token, { subject, call, index })
    } catch (error) {
      call.settle(index, isTheMessage(error) ? { status: 'refused', error } : unavailable(error))
    }
  }

  #hear({ subject, headers, data }: Msg): void {
    const token = Number(subject.slice(this.#inbox.length + 1))
    const waiting = this.#unanswered.get(token)
    if (waiting === undefined) return
    this.#unanswered.delete(token)
    const { call, index } = waiting
    if (headers?.code === 503) {
      call.settle(index, unroutable(`no stream takes the subject ${waiting.subject}`))
      this.#unroutable()
    } else call.settle(index, answer(data, this.#plan.name))
  }

  /** The server names the subject that it denied, not the message: every unanswered message of that subject has failed. */
  #refused(subject: string, error: Error): void {
    if (subject.startsWith(this.#inbox)) this.#endAll(brokerError('the answers of NATS cannot be heard', error))
    for (const [token, waiting] of this.#unanswered) {
      if (waiting.subject !== subject) continue
      this.#unanswered.delete(token)
      const refused = brokerError('NATS does not allow this message', error)
      waiting.call.settle(waiting.index, { status: 'failed', error: refused })
    }
  }

  #endAll(error: Error): void {
    const unanswered = [...this.#unanswered.values()]
    this.#unanswered.clear()
    for (const { call, index } of unanswered) call.settle(index, unavailable(error))
  }
}

/** The server's reply, as JSON: where the message is stored, or why it was refused. */
interface PubAck {
  readonly stream?: string
  readonly seq?: number
  readonly error?: ApiError
}

function answer(data: Uint8Array, stream: string): Confirmation {
  let ack: PubAck
  try {
    ack = JSON.parse(Buffer.from(data).toString())
  } catch (error) {
    return unavailable(error)
  }
  if (ack.error !== undefined) return notTaken(ack.error)
  if (ack.stream === stream && Number(ack.seq) > 0) return CONFIRMED
  // Another responder on this subject, or a stream that ignores the header naming the expected stream.
  return unroutable(`expected stream ${stream} to confirm the message, got ${ack.stream ?? 'no stream'}`)
}

function notTaken({ err_code, description }: ApiError): Confirmation {
  const error = new HapaxError('broker-refused', `NATS did not take the message: ${description} (${err_code})`)
  if (err_code === API.messageTooLarge || err_code === API.headersTooLarge) return { status: 'refused', error }
  if (err_code === API.temporarilyUnavailable || err_code === API.tooManyRequests) return unavailable(error)
  return { status: 'failed', error }
}

/** The client would throw as well, but without saying that size is the reason. */
function refuseLarge(bytes: number, most = Number.POSITIVE_INFINITY): void {
  if (bytes <= most) return
  const what = `expected a message of at most ${most} bytes with its headers, because NATS takes no more, got ${bytes}`
  throw new HapaxError('too-large', what, { fields: { bytes } })
}

/** The bytes of headers on the wire. */
function sizeOf(headers: MsgHdrs): number {
  let bytes = 'NATS/1.0\r\n\r\n'.length
  for (const [name, values] of headers) for (const value of values) bytes += name.length + Buffer.byteLength(value) + 4
  return bytes
}

function isTheMessage(error: unknown): error is HapaxError {
  return isHapaxError(error) && THE_MESSAGE.has(error.code)
}

/** Errors that will be the same at every attempt. */
const THE_MESSAGE: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['too-large', 'invalid-message', 'unencodable'])

function unroutable(what: string): Confirmation {
  return { status: 'failed', error: new HapaxError('unroutable', what) }
}

/** The answer for a message whose fate is unknown. */
export function unavailable(thrown: unknown): Confirmation {
  if (thrown instanceof HapaxError) return { status: 'unavailable', error: thrown }
  const what = `the message could not be sent: ${messageOf(asError(thrown))}`
  return { status: 'unavailable', error: new HapaxError('broker-unavailable', what, { cause: thrown }) }
}
