// What hapax has to know of the inside of a connection of `mysql2`.

import type { MysqlClient, MysqlQuery } from './mysql2.ts'

type Done = (error: unknown, answer?: unknown) => void

/** The connection in callback style that a promise connection wraps. */
interface Callbacks {
  query?(query: MysqlQuery, done: Done): unknown
  execute?(query: MysqlQuery, done: Done): unknown
}

/** What `mysql2` offers for prepared statements. */
export interface Preparing {
  execute(query: string | MysqlQuery, values?: readonly unknown[]): Promise<[unknown, ...unknown[]]>
  unprepare?(query: MysqlQuery): unknown
}

/** Whether this connection can prepare at all. */
export function canPrepare(client: object): client is Preparing {
  return 'execute' in client && typeof client.execute === 'function'
}

/** Sends a statement below the promises of `mysql2`, which take a whole stack trace each time. */
export function queried(client: MysqlClient, query: MysqlQuery): Promise<unknown> {
  return called(client, 'query', query) ?? client.query(query).then(([answer]) => answer)
}

/** The same for a statement that is prepared. */
export function executed(client: Preparing, query: MysqlQuery): Promise<unknown> {
  return called(client, 'execute', query) ?? client.execute(query).then(([answer]) => answer)
}

// Some clients wrap nothing.
function called(client: object, how: 'query' | 'execute', query: MysqlQuery): Promise<unknown> | undefined {
  const { connection }: { connection?: Callbacks } = client
  if (typeof connection?.[how] !== 'function') return undefined
  return new Promise((resolve, reject) => {
    connection[how]?.(query, (error, answer) => (error ? reject(error) : resolve(answer)))
  })
}

/** Whether a text may have several statements: the user has set up the pool so. */
export function takesSeveral(client: object): boolean {
  const { connection }: { connection?: { readonly config?: { readonly multipleStatements?: unknown } } } = client
  return connection?.config?.multipleStatements === true
}

interface Inside {
  readonly connection?: Inside
  readonly stream?: { destroy?: () => void }
  readonly _command?: unknown
  readonly _commands?: { readonly length: number }
}

/** Whether a statement or a stream is under way: whatever is sent now would wait for its end. */
export function isBusy(client: object): boolean {
  const inside: Inside = client
  const { _command, _commands } = inside.connection ?? inside
  return Boolean(_command) || Boolean(_commands?.length)
}

/** Closes the connection at once, whatever is running on it. */
export function destroy(client: Inside & { destroy(): void }): void {
  client.destroy()
  // destroy() only ends our half: a statement that is running would keep the link.
  client.connection?.stream?.destroy?.()
}
