import { fillReceipts, fillStuck } from '../backlog.ts'
import { CONSUMER, Counted, rig } from '../rig.ts'
import type { GrownStore } from './grown.ts'

/** Growth on PostgreSQL. */
export function grownPostgres(url: string): GrownStore {
  return {
    title: 'PostgreSQL',
    async open(name, options) {
      const made = await rig(url, name, options)
      const { pool, schema } = made
      const backlog = { schema, consumer: CONSUMER, type: Counted.type }
      const text = `select exists (select from ${schema}.inbox where ordered and not aside) as stuck`
      return Object.assign(made, {
        fillStuck: (count: number, how: 'held' | 'waiting') => fillStuck(pool, { ...backlog, count }, how),
        fillReceipts: (count: number, days: number, written: (count: number) => void) =>
          fillReceipts(pool, { ...backlog, count }, days, written),
        hasStuckInFront: async () => (await pool.query<{ stuck: boolean }>(text)).rows[0]?.stuck ?? false,
        tidy: async () => void (await pool.query(`vacuum ${schema}.inbox`)),
      })
    },
  }
}
