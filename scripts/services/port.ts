import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** A port below the range that outgoing connections take theirs from, so that none takes it before the server does. */
export async function freePort(): Promise<number> {
  for (;;) {
    const server = createServer().listen(randomInt(20_000, 32_000), '127.0.0.1')
    try {
      await once(server, 'listening')
    } catch {
      continue
    }
    const address = server.address()
    server.close()
    if (typeof address === 'object' && address !== null) return address.port
  }
}
