import type { InboxRow } from '../contracts/index.ts'
import { computedKey, isDeliveries, type StoredMessage, unpackAttributes } from '../message/index.ts'
import { type Engine, persist } from '../transaction/index.ts'
import type { Registry } from './handlers.ts'
import type { ConsumerSettings } from './options.ts'
import { aboutOf, ref } from './reporter.ts'

/** The number of types warned about, bounded because senders can invent any number of them. */
const MOST_TYPES = 100

/**
 * Handles unordered messages of a consumer with `order`: those that arrived or were stored without a key, or were stored by a process without
 * `order`. Orders them by their key if they have one or their type computes one; warns otherwise.
 */
export class Keys<Tx> {
  readonly #engine: Engine<Tx>
  readonly #consumer: string
  readonly #ordered: boolean
  readonly #registry: Pick<Registry<Tx>, 'handlerOf'>
  readonly #warned = new Set<string>()

  constructor(
    engine: Engine<Tx>,
    consumer: string,
    { order }: Pick<ConsumerSettings, 'order'>,
    registry: Pick<Registry<Tx>, 'handlerOf'>,
  ) {
    this.#engine = engine
    this.#consumer = consumer
    this.#ordered = order !== 'none'
    this.#registry = registry
  }

  /** Called before a message is stored. */
  came(message: StoredMessage): void {
    if (this.#ordered && message.key === null) this.#warn(message, false)
  }

  /**
   * The key of a row that was stored unordered and has to be ordered; undefined: it is ordered already, or has no key. Throws
   * `invalid-message` or `invalid-payload` if the key cannot be computed.
   */
  missingIn({ message, ordered }: InboxRow): string | undefined {
    if (!this.#ordered || ordered) return undefined
    if (message.key !== null) return message.key
    const key = this.#computed(message)
    this.#warn(message, key !== null)
    return key ?? undefined
  }

  /** Makes a row ordered under this key. It keeps its position. */
  async add(seq: string, key: string): Promise<void> {
    await persist(this.#engine, () => this.#engine.store.inbox.addKey(seq, key))
  }

  #computed(message: StoredMessage): string | null {
    const { type } = this.#registry.handlerOf(message.type)
    return type.keyed ? computedKey(type, message, unpackAttributes(message).datacontenttype) : null
  }

  /** `late`: the message was stored without its key, and gets it only now. */
  #warn(message: StoredMessage, late: boolean): void {
    const { type } = message
    // Of deliveries to endpoints, only those with a key are ordered.
    if (isDeliveries(this.#consumer)) return
    if (this.#warned.has(type) || this.#warned.size >= MOST_TYPES) return
    this.#warned.add(type)
    const { events, logger } = this.#engine
    const event = { consumer: this.#consumer, message: ref(message) }
    const which = `a message of type ${type} ${late ? 'was stored' : 'arrived'} without a key`
    const what = late
      ? `${which} for ${this.#consumer}, which keeps order, by a process that cannot compute its key: later messages may have overtaken it`
      : `${which} for ${this.#consumer}, which keeps order: it is not ordered`
    logger.warn({ ...aboutOf(event), advice: late ? LATE : KEYLESS(type) }, what)
    events.emit('keyless', () => event)
  }
}

const LATE = 'Publish it with its key, or use the same message type in the process that stored it.'
const KEYLESS = (type: string): string =>
  `Messages without a key are not ordered. Give the type one: defineMessage('${type}', { key }); or have the sender set the attribute ` +
  "partitionkey; or locate the key with 'key' in .from()."
