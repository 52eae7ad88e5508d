import { createServer } from 'node:http'
import type { StandaloneConsole } from '../../console/standalone/index.ts'
import { toNode } from '../../http/node/index.ts'
import { type Address, bound, infoOf } from '../metrics-server.ts'

/** A server that listens, and answers nothing yet. */
export interface Opened {
  readonly address: Address
  /** From now on, the console answers. */
  serve(console: StandaloneConsole, origin: string | undefined): void
  close(): void
}

/** Listens. The console is made afterwards, because it has to know its port. */
export async function opened(address: Address): Promise<Opened> {
  const server = createServer()
  await bound(server, address)
  return {
    address: { host: address.host, port: infoOf(server).port },
    serve: ({ handler }, origin) => void server.on('request', toNode(handler, origin === undefined ? {} : { origin })),
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}
