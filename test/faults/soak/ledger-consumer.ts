import type { Consumer, ConsumerOptions, Hapax } from 'hapax'
import { asText, type Place, type RigTx } from '../../support/databases.ts'
import { seeded } from '../../support/seeded.ts'
import { Entry } from './entry.ts'
import { ledgerTables } from './ledger.ts'

/** Who writes effects, where, and under which seed some of them take long or fail at first. */
export interface LedgerConsumerOptions {
  readonly place: Place
  readonly seed: number
  readonly worker: number
  readonly options: ConsumerOptions
  /** How long every message takes at most, beside what the database takes. */
  readonly paceMs?: number
  /** How many effects a message has. */
  readonly effects?: (id: string) => number
}

/** The consumer of every soak: an effect for each message, and what of its key had taken effect before. */
export function ledgerConsumer(
  hapax: Hapax<RigTx>,
  { place, seed, worker, options, paceMs = 0, effects = () => 1 }: LedgerConsumerOptions,
): Consumer<RigTx> {
  const tables = ledgerTables(place)
  const retry = { attempts: 100, minDelayMs: 10, maxDelayMs: 100 }
  // No message may be given up because of what is done to its workers.
  const consumer = hapax.consumer('ledger', { ...options, retry })
  return consumer.on(Entry, async ({ key, n }, { tx, message, attempt }) => {
    const { id } = message
    const dice = seeded(seed + Number(id.slice(2)))
    const fate = dice()
    const limitMs = fate > 0.98 ? 200 : paceMs
    if (limitMs > 0) await new Promise((resolve) => setTimeout(resolve, dice() * limitMs))
    const { rows } = await tx.query(`select max(n) as n from ${tables.effects} where name = '${key}'`)
    const effect = `('${id}', '${key}', ${n}, ${numberIn(rows)}, ${worker})`
    for (let count = 0; count < effects(id); count++) {
      await tx.query(`insert into ${tables.effects} (id, name, n, seen, worker) values ${effect}`)
    }
    if (fate < 0.02 && attempt <= 2) throw new Error('this message fails twice')
    if (fate < 0.06 && attempt <= 1) throw new Error('this message fails once')
  })
}

function numberIn(rows: readonly unknown[]): number {
  const { n } = rows[0] as { n: unknown }
  return n === null ? 0 : Number(asText(n))
}
