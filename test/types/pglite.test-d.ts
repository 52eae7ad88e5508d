import { PGlite, type Transaction } from '@electric-sql/pglite'
import { createHapax, defineMessage } from 'hapax'
import { fromPglite, type PgliteTx } from 'hapax/pglite'
import { type PgTx, postgres } from 'hapax/postgres'

const db = new PGlite()
const hapax = createHapax({ store: postgres(fromPglite(db)), source: '/shop' })
const Ordered = defineMessage<{ id: string }>('ordered')

// Handlers and `hapax.transaction` have PGlite's own transaction.
const takesPglite = (tx: Transaction): Promise<unknown> => tx.query('select 1')
const takesPg = (tx: PgTx): Promise<unknown> => tx.query('select 1')
hapax.consumer('billing').on(Ordered, async ({ id }, ctx) => {
  const tx: PgliteTx<Transaction> = ctx.tx
  await takesPglite(tx)
  // What was written for `pg` runs as well.
  await takesPg(tx)
  const { rows } = await tx.query<{ id: string }>('select id from orders where id = $1', [id])
  const first: string | undefined = rows[0]?.id
  await tx.sql`select ${first}`
})
await db.transaction((tx) => hapax.publish(tx, Ordered, { id: '1' }))
