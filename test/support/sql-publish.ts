import { randomBytes } from 'node:crypto'
import { createHapax, type Hapax, type Store, silentLogger } from 'hapax'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import { createConnection } from 'mysql2/promise'
import pg from 'pg'
import { asText } from './databases.ts'
import { requireServer } from './servers.ts'

/** What a program in another language hands over; `data` and `headers` are texts of JSON. */
export interface SqlMessage {
  readonly source: string | null
  readonly type: string | null
  readonly data?: string | null
  readonly key?: string
  readonly id?: string
  readonly subject?: string
  readonly headers?: string
  readonly correlationId?: string
  readonly causationId?: string
  readonly traceparent?: string
  readonly tracestate?: string
  readonly delayMs?: number
  readonly relay?: string
}

/** A row of the outbox, with its texts as texts and its bytes as digits. */
type OutboxColumns = Readonly<Record<string, unknown>>

/** A database with the tables of hapax, and a plain connection that publishes on it. */
export interface SqlRig {
  hapax(source: string, delivery?: 'local'): Hapax<unknown>
  /** Calls the routine in a transaction that commits, or rolls back when asked to. */
  publish(message: SqlMessage, end?: 'commit' | 'rollback'): Promise<string>
  /** The rows of the outbox, oldest first, without the time they were made at. */
  outbox(): Promise<readonly OutboxColumns[]>
  clear(): Promise<void>
  close(): Promise<void>
}

/** Opens a rig with a schema or database of its own. */
export const sqlRigs: Record<'postgres' | 'mysql', () => Promise<SqlRig>> = { postgres: onPostgres, mysql: onMysql }

async function onPostgres(): Promise<SqlRig> {
  const schema = `sql_publish_${randomBytes(4).toString('hex')}`
  const url = requireServer('postgres')
  const client = new pg.Client(url)
  client.on('error', () => {})
  await client.connect()
  const store = postgres({ url, schema })
  await store.schema.migrate()
  return {
    hapax: (source, delivery) => openHapax(store, source, delivery),
    publish: async (message, end = 'commit') => {
      const names = Object.keys(message).filter((name) => message[name as keyof SqlMessage] !== undefined)
      const args = names.map((name, index) => `${name.replaceAll(/[A-Z]/g, '_$&').toLowerCase()} => $${index + 1}`)
      await client.query('begin')
      try {
        const values = names.map((name) => message[name as keyof SqlMessage])
        const { rows } = await client.query(`select "${schema}".publish(${args.join(', ')}) as id`, values)
        await client.query(end)
        return rows[0].id as string
      } catch (error) {
        await client.query('rollback')
        throw error
      }
    },
    outbox: async () => {
      const { rows } = await client.query(
        `select *, extract(epoch from available_at - created_at) * 1000 as delay from "${schema}".outbox order by seq`,
      )
      return rows.map(readable)
    },
    clear: async () => void (await client.query(`truncate "${schema}".outbox`)),
    close: async () => {
      await store.close()
      await client.query(`drop schema "${schema}" cascade`)
      await client.end()
    },
  }
}

async function onMysql(): Promise<SqlRig> {
  const name = `sql_publish_${randomBytes(4).toString('hex')}`
  const url = new URL(requireServer('mysql'))
  const client = await createConnection({ uri: url.href, charset: 'utf8mb4' })
  client.on('error', () => {})
  await client.query(`create database ${name}`)
  await client.query(`use ${name}`)
  url.pathname = `/${name}`
  const store = mysql({ url: url.href })
  await store.schema.migrate()
  return {
    hapax: (source, delivery) => openHapax(store, source, delivery),
    publish: async ({ source, type, data, key, id, ...options }, end = 'commit') => {
      const { headers, ...others } = options
      // As a program would: the options are one JSON text, and headers are an object in it.
      const packed = headers === undefined ? JSON.stringify(others) : withHeaders(JSON.stringify(others), headers)
      await client.query('begin')
      try {
        const values = [
          source,
          type,
          data === undefined ? 'none' : data,
          key ?? null,
          id ?? null,
          packed === '{}' ? null : packed,
        ]
        await client.query('call hapax_publish(?, ?, ?, ?, ?, ?, @id)', values)
        const [rows] = await client.query('select @id as id')
        await client.query(end)
        return asText((rows as { id: unknown }[])[0]?.id)
      } catch (error) {
        await client.query('rollback')
        throw error
      }
    },
    outbox: async () => {
      const delay = 'timestampdiff(microsecond, created_at, available_at) / 1000 as delay'
      const [rows] = await client.query(`select *, ${delay} from hapax_outbox order by seq`)
      return (rows as Record<string, unknown>[]).map(readable)
    },
    clear: async () => void (await client.query('delete from hapax_outbox')),
    close: async () => {
      await store.close()
      await client.query(`drop database ${name}`)
      await client.end()
    },
  }
}

function withHeaders(options: string, headers: string): string {
  return `${options.slice(0, -1)}${options === '{}' ? '' : ','}"headers":${headers}}`
}

function openHapax(store: unknown, source: string, delivery: 'local' | 'relay' = 'relay'): Hapax<unknown> {
  return createHapax({ store: store as Store<unknown>, source, delivery, logger: silentLogger })
}

const BYTES = ['message_key', 'fingerprint', 'data', 'key_hash']

/** The columns that a publisher decides; the time is taken out of the attributes, and the delay is in seconds. */
function readable(row: Record<string, unknown>): OutboxColumns {
  const { seq, mark, created_at, available_at, set_at, ...columns } = row
  const read = Object.entries(columns).map(([name, value]) => {
    if (value instanceof Uint8Array)
      return [name, BYTES.includes(name) ? Buffer.from(value).toString('hex') : asText(value)]
    return [name, value]
  })
  const { attributes, delay, ...rest } = Object.fromEntries(read)
  const time = /"time":"([^"]*)",/.exec(attributes)?.[1]
  return {
    ...rest,
    attributes: JSON.parse(attributes.replace(`"time":"${time}",`, '')),
    time,
    delay: Math.round(Number(delay) / 1000) || 0,
  }
}
