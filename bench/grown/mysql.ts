import { createHapax, silentLogger } from 'hapax'
import { mysql } from 'hapax/mysql'
import { createPool, type Pool, type RowDataPacket } from 'mysql2/promise'
import { CONSUMER, Counted } from '../rig.ts'
import type { GrownOptions, GrownRig, GrownStore } from './grown.ts'
import { asGrown, rowsOf, stuckRowsOf, type Words } from './rows.ts'

const DIGITS = Array.from({ length: 10 }, (_, digit) => `select ${digit} as d`).join(' union all ')
/** Numbers from 1 on: neither server makes millions of them by itself. */
const NUMBERS = (count: number): string => `
(select 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d + 100000 * g.d as n
from (${DIGITS}) as a, (${DIGITS}) as b, (${DIGITS}) as c, (${DIGITS}) as e, (${DIGITS}) as f, (${DIGITS}) as g
having n <= ${count}) as numbers`

const WORDS: Words = {
  numbers: NUMBERS,
  now: 'utc_timestamp(6)',
  later: 'utc_timestamp(6) + interval 1 hour',
  daysAgo: (days) => `utc_timestamp(6) - interval ${days} day`,
  // Keys that rise as those of UUIDv7 ids do, so that the index grows at its end.
  key: (place) =>
    `unhex(concat(lpad(hex(unix_timestamp() * 1000000 + n + ${place}), 14, '0'), left(sha2(concat(n, rand()), 256), 18)))`,
  id: 'uuid()',
  bytes: (hex) => `x'${hex}'`,
  text: (n) => `cast(${n} as char)`,
  joined: (text, n) => `concat('${text}', ${n})`,
  lane: (key) => `conv(left(sha2(${key}, 256), 2), 16, 10) % 64`,
  times: true,
}

/** Growth on MariaDB or MySQL. */
export function grownMysql(url: string): GrownStore {
  return {
    title: 'MariaDB',
    async open(name, options) {
      const place = new URL(url)
      const admin = createPool({ uri: url, connectionLimit: 1 })
      await admin.query(`drop database if exists ${name}`)
      await admin.query(`create database ${name}`)
      place.pathname = `/${name}`
      const pool = createPool({ uri: place.href, connectionLimit: 12 })
      const close = async (): Promise<void> => {
        await pool.end()
        await admin.query(`drop database ${name}`)
        await admin.end()
      }
      return opened(pool, options, close)
    },
  }
}

async function opened(pool: Pool, options: GrownOptions, close: () => Promise<void>): Promise<GrownRig> {
  const { many = false, ...rest } = options
  const hapax = createHapax({ store: mysql({ pool }), source: '/bench', delivery: 'local', logger: silentLogger })
  await hapax.migrate()
  await pool.query('create table business (id varchar(100) not null, number integer not null)')
  const consumer = hapax.consumer(CONSUMER, rest)
  const grown = asGrown({
    hapax,
    worker: () => hapax.worker({ consume: [consumer] }),
    run: async (text) => void (await pool.query(text)),
    first: async (text) => Number(Object.values((await pool.query<RowDataPacket[]>(text))[0][0] ?? {})[0]),
    rows: (backlog) => rowsOf(WORDS, backlog),
    stuckRows: (count, how) => stuckRowsOf(WORDS, count, how),
    words: WORDS,
    close,
  })
  if (many) {
    consumer.onMany(Counted, async (items, { tx }) => {
      grown.firstCall ??= performance.now()
      const values = items.map(({ message, data }) => [message.id, data])
      await tx.query('insert into business (id, number) values ?', [values])
    })
  } else {
    consumer.on(Counted, async (number, { tx, message }) => {
      grown.firstCall ??= performance.now()
      await tx.query('insert into business (id, number) values (?, ?)', [message.id, number])
    })
  }
  return grown
}
