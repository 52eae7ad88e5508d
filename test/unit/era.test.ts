import { EventEmitter } from 'node:events'
import { HapaxError } from 'hapax'
import { describe, expect, it } from 'vitest'
import * as mysql from '../../src/stores/mysql/errors.ts'
import * as postgres from '../../src/stores/postgres/errors.ts'
import { HostsPool, type OwnPool, urlsOf } from '../../src/stores/postgres/hosts.ts'
import type { PgPoolClient, PgResult } from '../../src/stores/postgres/pg.ts'
import { doomed, Era } from '../../src/stores/sql/index.ts'

describe('an era', () => {
  it('ends for every connection that was opened in it', () => {
    let ended = 0
    const era = new Era(() => {
      ended += 1
    })
    const [one, two] = [{}, {}]
    expect([era.trusts(one), era.trusts(two)]).toEqual([true, true])
    era.doubt(one)
    expect([era.trusts(one), era.trusts(two), era.trusts({})]).toEqual([false, false, true])
    expect(ended).toBe(1)
  })

  it('is not ended by a connection of an earlier one', () => {
    const era = new Era()
    const [old, fresh] = [{}, {}]
    era.trusts(old)
    era.doubt(old)
    era.trusts(fresh)
    era.doubt(old)
    expect(era.trusts(fresh)).toBe(true)
  })

  it('takes a connection that the pool hands out again although it was to be closed', () => {
    const era = new Era()
    const only = {}
    era.trusts(only)
    era.doubt(only)
    expect([era.trusts(only), era.trusts(only)]).toEqual([false, true])
  })
})

describe('a server that takes no writes', () => {
  const pg = (code: string, message = ''): Error => Object.assign(new Error(message), { code, severity: 'ERROR' })
  const my = (errno: number, message = ''): Error => Object.assign(new Error(message), { errno, sqlState: 'HY000' })

  it('is told from others by its error, also inside the errors of hapax and of ORMs', () => {
    const errors = [pg('25006'), pg('55000', 'cannot execute LISTEN during recovery')]
    for (const error of errors) expect(postgres.isReadOnly(doomed('lost', error))).toBe(true)
    expect(postgres.isReadOnly(pg('40001'))).toBe(false)
    expect(postgres.isReadOnly(new HapaxError('busy', 'no'))).toBe(false)
    const readOnly = 'The MariaDB server is running with the --read-only option so it cannot execute this statement'
    for (const error of [my(1290, readOnly), my(1836), my(1792), my(1047)])
      expect(mysql.isReadOnly(doomed('lost', error))).toBe(true)
    expect(mysql.isReadOnly(my(1290, 'running with the --secure-file-priv option'))).toBe(false)
    expect(mysql.isReadOnly(my(1213))).toBe(false)
  })
})

describe('a URL with several hosts', () => {
  it('is one for each of them', () => {
    const after = '/shop?target_session_attrs=read-write'
    expect(urlsOf('url', `postgres://u:p%40@one:5432,[::1]:5433,three${after}`)).toEqual([
      `postgres://u:p%40@one:5432${after}`,
      `postgres://u:p%40@[::1]:5433${after}`,
      `postgres://u:p%40@three${after}`,
    ])
    expect(urlsOf('url', 'postgres://localhost/a,b')).toEqual(['postgres://localhost/a,b'])
    expect(urlsOf('url', 'postgres://u:p@a,b@one/shop')).toEqual(['postgres://u:p@a,b@one/shop'])
  })

  it('is refused if it asks for a server that takes no writes', () => {
    expect(() => urlsOf('url', 'postgres://one,two/shop?target_session_attrs=prefer-standby')).toThrow(
      /expected url to .*target_session_attrs=read-write.*prefer-standby/,
    )
    expect(() => urlsOf('url', 'postgres://one,two/shop?target_session_attrs=any')).toThrow(/read-write.*any/)
    expect(() => urlsOf('url', 'postgres://one/shop?target_session_attrs=standby')).toThrow(/read-write.*standby/)
  })

  it('may ask for any server if there is one', () => {
    const url = 'postgres://one/shop?target_session_attrs=any'
    expect(urlsOf('url', url)).toEqual([url])
  })
})

describe('a pool over several hosts', () => {
  /** A server that is a primary, a standby, or away. */
  class Server implements OwnPool {
    state: 'primary' | 'standby' | 'away'
    opened = 0
    released: unknown[] = []

    constructor(state: Server['state']) {
      this.state = state
    }

    async connect(): Promise<PgPoolClient> {
      if (this.state === 'away') throw new Error('ECONNREFUSED')
      this.opened += 1
      return {
        query: () => this.query(),
        release: (error) => this.released.push(error),
        on: () => {},
        off: () => {},
      }
    }

    async query(): Promise<PgResult> {
      return { rows: [{ transaction_read_only: this.state === 'primary' ? 'off' : 'on' }], rowCount: 1 }
    }

    async end(): Promise<void> {}
  }

  it('uses the one that takes writes, and returns connections to the others', async () => {
    const [away, standby, primary] = [new Server('away'), new Server('standby'), new Server('primary')]
    const pool = new HostsPool([away, standby, primary])
    await pool.connect()
    await pool.connect()
    expect([away.opened, standby.opened, primary.opened]).toEqual([0, 1, 2])
    expect(standby.released).toEqual([true])
  })

  it('says that the servers take no writes if none does', async () => {
    const failure = await new HostsPool([new Server('standby'), new Server('standby')])
      .connect()
      .catch((error) => error)
    expect(postgres.isReadOnly(failure)).toBe(true)
    expect(postgres.classify(failure)).toBe('lost')
  })

  it.each([
    ['before', ['away', 'standby']],
    ['behind', ['standby', 'away']],
  ] as const)('says what is wrong with the server %s a standby', async (_, states) => {
    const pool = new HostsPool(states.map((state) => new Server(state)))
    await expect(pool.connect()).rejects.toThrow('ECONNREFUSED')
  })

  it('hears the errors of a connection while it asks whether its server takes writes', async () => {
    const heard: number[] = []
    const dying = new Server('primary')
    dying.connect = async () => {
      const client = new EventEmitter()
      const query = async (): Promise<never> => {
        heard.push(client.listenerCount('error'))
        throw new Error('Connection terminated unexpectedly')
      }
      return Object.assign(client, { query, release: () => {} })
    }
    const primary = new Server('primary')
    await new HostsPool([dying, primary]).connect()
    expect(heard).toEqual([1])
    expect(primary.opened).toBe(1)
  })

  it('begins with the next one when there is doubt', async () => {
    const [one, two] = [new Server('primary'), new Server('primary')]
    const pool = new HostsPool([one, two])
    await pool.connect()
    pool.doubt()
    await pool.connect()
    expect([one.opened, two.opened]).toEqual([1, 1])
  })
})
