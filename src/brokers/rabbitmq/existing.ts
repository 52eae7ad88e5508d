import { HapaxError } from '../../base/index.ts'
import { serverClose } from './errors.ts'
import type { QueuePlace } from './options.ts'
import { promisedArguments, queueArguments } from './topology.ts'

/**
 * The arguments with which a queue is declared. Where it is there already with others that break no promise, it is taken as it
 * is: a server names one difference at a time, so each is adopted until nothing differs any more.
 */
export class Existing {
  readonly #queue: QueuePlace
  readonly #differences = new Map<string, string>()
  readonly arguments: Record<string, unknown>

  constructor(queue: QueuePlace, version: string) {
    this.#queue = queue
    this.arguments = queueArguments(queue, version)
  }

  /** Takes the queue as the server says that it is. Throws the error where it says something else, or what has to differ not. */
  adopt(error: unknown): void {
    const difference = differenceIn(error, this.arguments)
    const name = difference?.name ?? ''
    if (difference === undefined || this.#differences.has(name) || promisedArguments(this.#queue).has(name)) throw error
    if (difference.current === undefined) delete this.arguments[name]
    else this.arguments[name] = difference.current
    this.#differences.set(name, difference.sentence)
  }

  /** What people should know; undefined: the queue is made as it was asked for. */
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
  /** What the queue has; undefined: nothing. */
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

/** The types are those of the protocol; where the server names none, it has the type that was asked for. */
function typed(value: string, type: string): unknown {
  if (/^(longstr|string)$/.test(type)) return value
  if (/^bool/.test(type)) return value === 'true'
  return Number(value)
}
