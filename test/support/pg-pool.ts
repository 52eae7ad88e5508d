import pg from 'pg'

/** A pool of a test's own, beside hapax. When its server dies the next query says so, and not an event that nobody hears. */
export function pgPool(options: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool(options)
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}
