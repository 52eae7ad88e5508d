import { HapaxError } from '../../base/index.ts'
import type { PgClient } from './pg.ts'

/** The `client_encoding` of each session, as far as it is known. */
const encodings = new WeakMap<object, string>()
/** Clients whose server process is the one that they were connected to. */
const direct = new WeakSet<object>()

/**
 * Whether a client talks to one server process as long as it lives. A pooler makes up the number of the process that it tells its clients,
 * and may give each transaction another one, which does not know the statements that were prepared before.
 */
export function isDirect(client: object): boolean {
  return direct.has(client)
}

/**
 * Makes sure that a session takes a text for what it is. `pg` writes and reads UTF-8, whatever `client_encoding` says: elsewhere a
 * backslash may be half of a character, and what follows it means something else. Undefined: it does, there is nothing to wait for.
 */
export function speaksUtf8(client: PgClient): Promise<void> | undefined {
  const encoding = encodings.get(client)
  if (encoding === 'UTF8') return undefined
  return encoding === undefined ? firstLook(client) : Promise.reject(otherwise(encoding))
}

/** The same inside a transaction, where a handler has changed it: what it has set is back when the transaction is over. */
export function insistOnUtf8(client: PgClient): Promise<unknown> | undefined {
  return encodings.get(client) === 'UTF8' ? undefined : client.query(`set local client_encoding to 'UTF8'`)
}

async function firstLook(client: PgClient): Promise<void> {
  listen(client)
  const answer = await client.query(
    `select current_setting('client_encoding') as encoding, pg_backend_pid()::text as pid`,
  )
  const { encoding: seen, pid }: { encoding?: unknown; pid?: unknown } = answer.rows[0] ?? {}
  const encoding = String(seen)
  const processID: unknown = Reflect.get(client, 'processID')
  if (processID !== undefined && String(processID) === String(pid)) direct.add(client)
  encodings.set(client, encoding)
  if (encoding !== 'UTF8') throw otherwise(encoding)
}

interface Connection {
  on(event: 'parameterStatus', listener: (message: { parameterName: string; parameterValue: string }) => void): unknown
}

/** The server says so when it is changed. Not every client passes that on. */
function listen(client: object): void {
  const { connection }: { connection?: Partial<Connection> } = client
  connection?.on?.('parameterStatus', ({ parameterName, parameterValue }) => {
    if (parameterName === 'client_encoding') encodings.set(client, parameterValue)
  })
}

function otherwise(encoding: string): HapaxError {
  const what = `expected client_encoding of the connection to be UTF8, because pg reads and writes nothing else, got ${encoding}`
  return new HapaxError('store-unavailable', what, { fields: { encoding } })
}
