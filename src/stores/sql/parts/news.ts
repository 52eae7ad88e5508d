import type { StoreNews } from '../../../contracts/index.ts'
import { CONTROL_MS } from '../calls.ts'
import type { SqlContext } from './context.ts'

/** News on an SQL database that has notifications. Everyone can tell; listening takes a connection. */
export function sqlNews<Tx, Own>({ connection, dialect, calls, sessions }: SqlContext<Tx, Own>): StoreNews | undefined {
  const { news } = dialect
  if (news === undefined) return undefined
  const tell = async (text: string): Promise<void> => void (await calls.run(news.tell(text), CONTROL_MS))
  return {
    tell,
    listen: (heard, deaf) => {
      if (connection.listen !== undefined) {
        const connected = (session: string | undefined): void => sessions.change(session)
        return connection.listen({ channel: news.channel, heard, deaf, tell, connected })
      }
      deaf('there is no connection for it: give hapax a url, or control.url beside the pool')
      return () => Promise.resolve()
    },
  }
}
