import { hash } from 'node:crypto'
import type { StoredMessage } from '../../message/index.ts'

/** How many digits stand for a consumer. */
const DIGITS = 16

/**
 * The keys of a prefix. A claim is named by digits only: those of its consumer and those of its message, so that no name can be
 * read as another one. What is between braces decides which server of a cluster has it.
 */
export class Names {
  readonly #prefix: string
  readonly #consumers = new Map<string, string>()
  /** Failed messages by seq; the last seq; and those on their way from there to a line. */
  readonly failed: string
  readonly seq: string
  readonly moving: string
  /** What was seen: consumers with their types, and sources. */
  readonly types: string
  readonly consumers: string
  readonly sources: string

  constructor(prefix: string) {
    this.#prefix = prefix
    this.failed = this.#key('failed')
    this.seq = `${this.failed}:seq`
    this.moving = `${this.failed}:moving`
    this.types = this.#key('known')
    this.consumers = `${this.types}:consumers`
    this.sources = `${this.types}:sources`
  }

  /** The name of the claim of a message. */
  claim(consumer: string, messageKey: string): string {
    return `${this.#digits(consumer)}:${messageKey}`
  }

  /** The name of a message whose identity belongs to another one. */
  conflict(consumer: string, { messageKey, source, id, type, fingerprint }: StoredMessage): string {
    const own = hash('sha256', JSON.stringify([source, id, type, fingerprint]), 'hex').slice(0, 32)
    return `${this.claim(consumer, messageKey)}:${own}`
  }

  /** Where a claim is kept. */
  key(name: string): string {
    return this.#key(name)
  }

  /** The line of what people want to be tried again, of a consumer. */
  line(consumer: string): string {
    return this.#key(`line:${this.#digits(consumer)}`)
  }

  /** The line to which a claim belongs. */
  lineOf(name: string): string {
    return this.#key(`line:${name.slice(0, DIGITS)}`)
  }

  /** Where requests with this id are, of whomever. */
  ids(id: string): string {
    return this.#key(`id:${hash('sha256', id, 'hex').slice(0, 32)}`)
  }

  #key(name: string): string {
    return `${this.#prefix}{${name}}`
  }

  #digits(consumer: string): string {
    let digits = this.#consumers.get(consumer)
    if (digits === undefined) {
      digits = hash('sha256', consumer, 'hex').slice(0, DIGITS)
      this.#consumers.set(consumer, digits)
    }
    return digits
  }
}

/** A claim as it stands in an index: under the number of its failure, so that a later failure is another entry. */
export function entry(name: string, seq: string): string {
  return `${name}:${seq}`
}

/** The claim and the number of an entry. */
export function ofEntry(text: string): { readonly name: string; readonly seq: string } {
  const at = text.lastIndexOf(':')
  return { name: text.slice(0, at), seq: text.slice(at + 1) }
}
