import { HapaxError } from '../../base/index.ts'
import { serverClose } from './errors.ts'
import type { QueuePlace } from './options.ts'
import { promisedArguments, queueArguments } from './topology.ts'

/**
 * The arguments with which a queue is declared. An existing queue with other arguments is used as it is, unless that would break a
 * promise of the options. The server names one difference at a time, so each one is adopted until none is left.
 */
export class Existing {
  readonly #queue: QueuePlace
  readonly #differences = new Map<string, string>()
  readonly arguments: Record<string, unknown>

  constructor(queue: QueuePlace, version: string) {
    this.#queue = queue
    this.arguments = queueArguments(queue, version)
  }

  /** Adopts the difference that the server named. Throws the error if it is about something else, or if a promise depends on it. */
  adopt(error: unknown): void {
    const difference = differenceIn(error, this.arguments)
    const name = difference?.name ?? ''
    if (difference === undefined || this.#differences.has(name) || promisedArguments(this.#queue).has(name)) throw error
    if (difference.current === undefined) delete this.arguments[name]
    else this.arguments[name] = difference.current
    this.#differences.set(name, difference.sentence)
  }

  /** The warning about adopted differences; undefined if there are none. */
  get warning(): HapaxError | undefined {
    if (this.#differences.size === 0) return undefined
    const { name } = this.#queue
    const what = [...this.#differences.values()].join('; ')
    const limit = this.#differences.has('x-delivery-limit') ? `. ${this.#limited()}` : ''
    return new HapaxError(
      'topology-mismatch',
      `queue ${name} is read as it is, which is not as declared: ${what}${limit}`,
    )
  }

  #limited(): string {
    const limit = this.arguments['x-delivery-limit'] ?? 20
    return (
      `The server drops a message that came back more than ${limit} times, unless the queue has a dead letter exchange: ` +
      'declare it anew, or set delivery-limit to -1 by a policy'
    )
  }
}

interface Difference {
  readonly name: string
  /** The value of the queue; undefined: it has none. */
  readonly current: unknown
  readonly sentence: string
}

/** `received the value '-1' of type 'signedint' but current is none`, or `received '10' but current is '9'`. */
const INEQUIVALENT =
  /inequivalent arg '([^']+)' for queue .*?: (received .+ but current is (?:none|(?:the value )?'(.*?)'(?: of type '(\w+)')?))$/s

function differenceIn(error: unknown, asked: Readonly<Record<string, unknown>>): Difference | undefined {
  const found = INEQUIVALENT.exec(serverClose(error)?.sentence ?? '')
  if (found === null) return undefined
  const [, name = '', what = '', value, type] = found
  const current = value === undefined ? undefined : typed(value, type ?? typeof asked[name])
  return Number.isNaN(current) ? undefined : { name, current, sentence: `${name}: ${what}` }
}

/** Parses a value by its AMQP type. If the server names none, it has the type of the declared value. */
function typed(value: string, type: string): unknown {
  if (/^(longstr|string)$/.test(type)) return value
  if (/^bool/.test(type)) return value === 'true'
  return Number(value)
}
