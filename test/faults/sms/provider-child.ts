import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { endWithParent, job, say } from '../../support/child.ts'
import { seeded } from '../../support/seeded.ts'

/** A provider of text messages: what it does with keys, and how often it lets its callers down. */
export interface ProviderJob {
  readonly seed: number
  /** Whether a key that it knows is answered without sending again. */
  readonly honoursKeys: boolean
  /** Shares of the calls. */
  readonly trouble: Readonly<Record<Trouble, number>>
  readonly lateMs: number
}

/** Sent, and the reply is lost; sent, and the reply is late; refused, not sent. */
export type Trouble = 'lost' | 'late' | 'refused'

/** What a provider says when it is ready. */
export interface ProviderReady {
  readonly url: string
}

/** What a provider did: how often it was called and how often it sent, by recipient. */
export interface Sent {
  readonly keys: Readonly<Record<string, number>>
  readonly messages: Readonly<Record<string, number>>
  readonly calls: number
}

endWithParent()
const { seed, honoursKeys, trouble, lateMs } = job<ProviderJob>()
const random = seeded(seed)
const keys = new Map<string, number>()
const messages = new Map<string, number>()
let calls = 0

const server = createServer((request, response) => {
  if (request.url === '/log') return void response.end(JSON.stringify(log()))
  if (request.url?.startsWith('/sent/')) {
    const key = request.url.slice('/sent/'.length)
    return void response.end(JSON.stringify({ sent: keys.get(key) ?? 0 }))
  }
  return send(request, response)
})
server.listen(0, '127.0.0.1', () => {
  void say({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` } satisfies ProviderReady)
})

function send(request: IncomingMessage, response: ServerResponse): void {
  calls += 1
  const [, , message = ''] = request.url?.split('/') ?? []
  const key = String(request.headers['idempotency-key'])
  const met = meet()
  if (met === 'refused') return void response.writeHead(503).end()
  if (!honoursKeys || !keys.has(key)) {
    count(keys, key)
    count(messages, message)
  }
  const answer = (): void => void response.end(JSON.stringify({ sms: `SM-${key}` }))
  if (met === 'lost') return void response.destroy()
  if (met === 'late') return void setTimeout(answer, lateMs)
  answer()
}

function meet(): Trouble | undefined {
  const drawn = random()
  let share = 0
  for (const each of ['lost', 'late', 'refused'] as const) {
    share += trouble[each]
    if (drawn < share) return each
  }
  return undefined
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1)
}

function log(): Sent {
  return { keys: Object.fromEntries(keys), messages: Object.fromEntries(messages), calls }
}
