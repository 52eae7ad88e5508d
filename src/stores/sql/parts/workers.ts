// Workers send heartbeats and look for work through control calls, which have connections or a time limit of their own: handlers that
// use up the pool must not make a worker look dead.

import type { Look, Result, Statement, StoreWorkers, WorkerRow } from '../../../contracts/index.ts'
import { CONTROL, CONTROL_MS } from '../calls.ts'
import type { Dialect } from '../dialect/dialect.ts'
import { asLooks } from '../look.ts'
import { asWorker } from '../rows.ts'
import { asBoolean, asText } from '../values.ts'
import { putStuck } from './aside.ts'
import type { SqlContext, SqlParts } from './context.ts'

/** The workers on an SQL database. */
export function sqlWorkers<Tx, Own>(context: SqlContext<Tx, Own>): StoreWorkers {
  const { calls, dialect } = context
  return {
    join: async (worker) => void (await calls.run(dialect.workers.join(worker))),
    note: async (id, { seqs, alone }, beat) => {
      const { affected } = await calls.run(dialect.workers.note(id, JSON.stringify(seqs), alone, beat), CONTROL_MS)
      if (affected === 0) return undefined
      return beat ? workersOf(context) : []
    },
    bury: async () => {
      const { rows } = await calls.short(dialect.workers.lockDead, ({ rows: dead }) => burial(dialect, dead), CONTROL)
      return rows.length
    },
    leave: async (id) => void (await calls.run(dialect.workers.leave([id]))),
    list: () => workersOf(context),
    look: async (shares) => {
      if (!shares.some((share) => share.lanes.length > 0)) return shares.map(() => NOTHING_THERE)
      const { rows } = await dialect.look((statement) => calls.run(statement, CONTROL_MS), shares)
      const looks = asLooks(shares, rows)
      await putStuck(context, shares, looks)
      return looks
    },
  }
}

/** All workers, dead ones too. */
async function workersOf({ calls, dialect }: Pick<SqlParts, 'calls' | 'dialect'>): Promise<readonly WorkerRow[]> {
  return (await calls.run(dialect.workers.list, CONTROL_MS)).rows.map(asWorker)
}

/** What follows from the death of these workers; undefined: none is dead. */
function burial(dialect: Dialect, dead: Result['rows']): readonly Statement[] | undefined {
  if (dead.length === 0) return undefined
  const inHand = (alone: boolean): string[] =>
    dead.filter((row) => asBoolean(row['alone']) === alone).flatMap((row) => JSON.parse(asText(row['in_hand'])))
  const [among, alone] = [inHand(false), inHand(true)]
  return [
    ...(among.length > 0 ? [dialect.workers.suspect(among)] : []),
    ...(alone.length > 0 ? [dialect.workers.crashed(alone)] : []),
    dialect.workers.leave(dead.map((row) => asText(row['id']))),
  ]
}

const NOTHING_THERE: Look = { entries: [], nextMs: undefined, after: new Map() }
