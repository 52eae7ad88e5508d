// Deliveries that arrive together: copies of one message, groups, and outcomes in the order of the deliveries.

import { asError, faultFields, type Logger, present } from '../base/index.ts'
import type { Outcome } from '../contracts/index.ts'
import type { Received, StoredMessage } from '../message/index.ts'

/** Hears of an outcome as soon as it is known: that of the message at this place. */
export type Settled = (index: number, outcome: Outcome) => void

/** The same, by message instead of by place. */
export type OutcomeListener = (stored: StoredMessage, outcome: Outcome) => void

/** Tells the outcomes of messages once each, of which these are the first copies. What `settled` throws is logged. */
export function listenerOf(
  entries: readonly Received[],
  settled: Settled | undefined,
  logger: Logger,
): OutcomeListener | undefined {
  if (settled === undefined) return undefined
  const places = new Map(entries.map(({ stored }, index) => [stored, index]))
  return (stored, outcome) => {
    const place = places.get(stored)
    if (place === undefined) return
    places.delete(stored)
    try {
      settled(place, outcome)
    } catch (error) {
      logger.error(faultFields(asError(error)), 'a listener of outcomes failed')
    }
  }
}

/** The first copy of each message. The same array if there are no others, which is the usual case. */
export function distinct(entries: readonly Received[]): readonly Received[] {
  if (entries.length === 1) return entries
  const keys = new Set<string>()
  for (const { stored } of entries) keys.add(stored.messageKey)
  if (keys.size === entries.length) return entries
  return entries.filter(({ stored }) => keys.delete(stored.messageKey))
}

/**
 * The outcomes of all copies. A later copy is compared with the first one, and is a duplicate of it; but if the first one was not
 * acknowledged, the later copy has the same outcome, so that the broker delivers both again.
 */
export async function allOutcomes(
  entries: readonly Received[],
  unique: readonly Received[],
  outcomes: readonly Outcome[],
  duplicate: (stored: StoredMessage, before: StoredMessage) => Outcome | Promise<Outcome>,
): Promise<readonly Outcome[]> {
  if (unique === entries) return outcomes
  const first = new Map<string, { readonly entry: Received; readonly result: Outcome }>()
  for (const [index, entry] of unique.entries()) {
    first.set(entry.stored.messageKey, { entry, result: present(outcomes[index], 'the outcome of a message') })
  }
  const results: Outcome[] = []
  for (const entry of entries) {
    const { entry: taken, result } = present(first.get(entry.stored.messageKey), 'the first copy of a message')
    const own = entry === taken || !result.ack
    results.push(own ? result : await duplicate(entry.stored, taken.stored))
  }
  return results
}

/** Groups of at most this size, in the same order. The size is asked for each group as it is taken, because it may change. */
export function* inGroups<T>(items: readonly T[], size: () => number): Generator<readonly T[]> {
  for (let start = 0; start < items.length; ) {
    const end = start + size()
    yield start === 0 && end >= items.length ? items : items.slice(start, end)
    start = end
  }
}

/** Outcomes that are known, by what they are the outcomes of. */
export class Outcomes<K> {
  readonly #known = new Map<K, Outcome>()
  readonly #listener: ((key: K, outcome: Outcome) => void) | undefined

  /** `listener` hears of each as soon as it is known. */
  constructor(listener?: (key: K, outcome: Outcome) => void) {
    this.#listener = listener
  }

  get(key: K): Outcome | undefined {
    return this.#known.get(key)
  }

  set(key: K, outcome: Outcome): void {
    this.#known.set(key, outcome)
    this.#listener?.(key, outcome)
  }

  /** Adds those of a group, which are in the order of its keys. */
  add(keys: readonly K[], outcomes: readonly Outcome[]): void {
    for (const [index, key] of keys.entries()) this.set(key, present(outcomes[index], 'the outcome of a message'))
  }

  /** Those of these keys, in their order. */
  inOrder(keys: readonly K[]): readonly Outcome[] {
    return keys.map((key) => present(this.#known.get(key), 'the outcome of a message'))
  }
}
