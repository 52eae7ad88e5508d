import { seeded, shuffled } from '../../support/seeded.ts'
import { keyName } from './ledger.ts'

/** A message to publish; it gets its number when it is. */
export interface Planned {
  readonly id: string
  readonly key: string
}

/** What is planned: the same for the same numbers, in whichever process. */
export interface PlanOptions {
  readonly seed: number
  readonly messages: number
  readonly keys: number
  /** The share of messages that are published again under the same id. */
  readonly copies: number
  readonly publishers: number
}

/** How far from the first a copy may be, so that some meet it in flight and others come long after. */
const FAR = 400

export function plannedIds(messages: number): string[] {
  return Array.from({ length: messages }, (_, index) => `m-${index}`)
}

/** The transactions of each publisher, in turn: one message or a few, a copy with any publisher. */
export function planOf({ seed, messages, keys, copies, publishers }: PlanOptions): Planned[][][] {
  const random = seeded(seed)
  const below = (limit: number): number => Math.floor(random() * limit)
  const all = plannedIds(messages).map((id): Planned => ({ id, key: keyName(below(keys)) }))
  const shares: Planned[][] = Array.from({ length: publishers }, () => [])
  for (const { each } of withCopies(all, copies, random)) shares[below(publishers)]?.push(each)
  return shares.map((share) => transactionsOf(share, below))
}

/** The ids of a share of the messages, in the order in which somebody may send them again who is not a publisher. */
export function copiedIds({ seed, messages, copies }: Pick<PlanOptions, 'seed' | 'messages' | 'copies'>): string[] {
  const placed = withCopies(plannedIds(messages), copies, seeded(seed))
  return placed.filter(({ copy }) => copy).map(({ each }) => each)
}

function withCopies<T>(all: readonly T[], share: number, random: () => number): { each: T; copy: boolean }[] {
  const copied = new Set(shuffled(all, random).slice(0, Math.round(all.length * share)))
  const placed = all.flatMap((each, index) => {
    const original = { each, copy: false, place: index }
    const later = index + Math.floor(random() * FAR)
    return copied.has(each) ? [original, { each, copy: true, place: later }] : [original]
  })
  return placed.sort((a, b) => a.place - b.place)
}

function transactionsOf(share: readonly Planned[], below: (limit: number) => number): Planned[][] {
  const transactions: Planned[][] = []
  for (let start = 0; start < share.length; ) {
    const size = below(10) < 7 ? 1 : 2 + below(4)
    const few = share.slice(start, start + size)
    start += size
    // An id twice in one transaction would be dropped before it reaches the database.
    transactions.push([...new Set(few)])
  }
  return transactions
}
