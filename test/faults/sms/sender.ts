import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

/** What became of a delivery: until it is acknowledged, it is delivered again, after this time. */
export interface Told {
  readonly id: string
  readonly ack: boolean
  readonly retryAfterMs: number
}

/** How many messages a worker takes at once. */
const MOST = 4
/** Not heard of for so long, a message is delivered again, whoever has it. Shorter than a lease: some are under way meanwhile. */
const SILENCE_MS = 400

/** Has messages for workers to take, and gives each of them again until it is told that it is done, as a broker does. */
export class Sender implements AsyncDisposable {
  readonly url: string
  readonly #server: Server
  /** What is not acknowledged, and when it is to be delivered. */
  readonly #due = new Map<string, number>()

  private constructor(server: Server) {
    this.#server = server
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  static async start(ids: readonly string[]): Promise<Sender> {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const sender = new Sender(server)
    for (const id of ids) sender.#due.set(id, 0)
    server.on('request', async (request, response) => {
      // A worker that died while it told something has told nothing.
      sender.#hear(await told(request).catch(() => []))
      response.end(JSON.stringify({ ids: sender.#next(), left: sender.#due.size }))
    })
    return sender
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #next(): readonly string[] {
    const now = performance.now()
    const ids: string[] = []
    for (const [id, due] of this.#due) {
      if (due > now) continue
      this.#due.set(id, now + SILENCE_MS)
      if (ids.push(id) === MOST) break
    }
    return ids
  }

  #hear(all: readonly Told[]): void {
    for (const { id, ack, retryAfterMs } of all) {
      if (ack) this.#due.delete(id)
      else if (this.#due.has(id)) this.#due.set(id, performance.now() + retryAfterMs)
    }
  }
}

async function told(request: IncomingMessage): Promise<readonly Told[]> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  return JSON.parse(Buffer.concat(parts).toString()) as Told[]
}

/** Takes from a sender and tells it what became of each, until it has nothing left. */
export async function takeAll(
  url: string,
  handle: (ids: readonly string[]) => Promise<readonly Told[]>,
): Promise<void> {
  let all: readonly Told[] = []
  for (;;) {
    // A link of its own: one that was kept may be closed by the other side in the moment in which it is used.
    const response = await fetch(url, { method: 'POST', body: JSON.stringify(all), headers: { connection: 'close' } })
    const { ids, left } = (await response.json()) as { ids: readonly string[]; left: number }
    if (left === 0) return
    if (ids.length === 0) await pause(20)
    all = await handle(ids)
  }
}
