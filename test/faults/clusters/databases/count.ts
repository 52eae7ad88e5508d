// Counts by plain SQL what the shop's tables say. Knows nothing of hapax but the names of its tables.

import type { Rows } from '../../../support/replicated.ts'
import { effectTables } from './orders.ts'

type Ask = (text: string) => Promise<Rows>

/** What is wrong, by the name of the table of effects. All is well where every list is empty. */
export interface Count {
  /** Orders, by the database that is asked. */
  readonly orders: number
  /** Acknowledged to a customer, and not there. */
  readonly vanished: readonly string[]
  /** Orders without an effect. */
  readonly lost: readonly string[]
  /** Orders with several. */
  readonly doubled: readonly string[]
  /** Effects that came when the one before it of its key was not the last. */
  readonly inverted: readonly string[]
  /** Effects without an order. */
  readonly unfounded: readonly string[]
  /** Effects that needed more than one attempt. */
  readonly repeated: readonly string[]
  /** Given up. */
  readonly failed: readonly string[]
}

/** The prefix of hapax's own tables. */
export const prefixOf = { postgres: 'hapax.', mysql: 'hapax_' } as const

export async function count(ask: Ask, prefix: string, acknowledged: Iterable<string>): Promise<Count> {
  const orders = new Set((await ask('select id from orders')).map(({ id }) => text(id)))
  const found = { lost: [], doubled: [], inverted: [], unfounded: [], repeated: [] } as Record<string, string[]>
  const complain = (what: keyof typeof found, table: string, id: string): void => {
    found[what]?.push(`${table} ${id}`)
  }
  for (const table of effectTables) {
    const effects = (await ask(`select id, name, n, seen, attempt from ${table}`)).map(asEffect)
    const times = new Map<string, number>()
    // Their numbers may have been given out again.
    const doubtful = new Set(effects.filter(({ id }) => !orders.has(id)).map(({ key }) => key))
    const numbers = Map.groupBy(effects, ({ key }) => key)
    // What is lost is complained of by itself: what comes after it is not inverted as well.
    const before = (key: string, n: number): number =>
      Math.max(0, ...(numbers.get(key) ?? []).map((each) => each.n).filter((each) => each < n))
    for (const { id, key, n, seen, attempt } of effects) {
      times.set(id, (times.get(id) ?? 0) + 1)
      if (seen !== before(key, n) && !doubtful.has(key)) complain('inverted', table, `${id} (${n} after ${seen})`)
      if (!orders.has(id)) complain('unfounded', table, id)
      if (attempt > 1) complain('repeated', table, id)
    }
    for (const id of orders) if (!times.has(id)) complain('lost', table, id)
    for (const [id, many] of times) if (many > 1) complain('doubled', table, id)
  }
  const failed = await ask(`select id, reason, error from ${prefix}failed`)
  return {
    ...(found as unknown as Pick<Count, 'lost' | 'doubled' | 'inverted' | 'unfounded' | 'repeated'>),
    orders: orders.size,
    vanished: [...acknowledged].filter((id) => !orders.has(id)),
    failed: failed.map(({ id, reason, error }) => `${text(id)}: ${text(reason)} ${text(error)}`),
  }
}

/** How many effects each table has. */
export async function effectCounts(ask: Ask): Promise<number[]> {
  const counts = effectTables.map((table) => `select count(*) as n from ${table}`)
  const rows = await ask(counts.join(' union all ')).catch((): Rows => [])
  return rows.length === 0 ? [0] : rows.map(({ n }) => Number(n))
}

/** What hapax still has to do. */
export async function left(ask: Ask, prefix: string): Promise<number> {
  const [row] = await ask(`select (select count(*) from ${prefix}outbox) + (select count(*) from ${prefix}inbox) as n`)
  return Number(row?.['n'])
}

function asEffect(row: Rows[number]): { id: string; key: string; n: number; seen: number; attempt: number } {
  const [n, seen, attempt] = [row['n'], row['seen'], row['attempt']].map(Number) as [number, number, number]
  return { id: text(row['id']), key: text(row['name']), n, seen, attempt }
}

function text(value: unknown): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString() : String(value)
}
