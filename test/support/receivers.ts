import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer as createHttp, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import { createServer as createHttps, type ServerOptions } from 'node:https'
import { type AddressInfo, createServer as createTcp, type Socket, type Server as TcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Endpoint } from 'hapax/contracts'
import type { OutgoingMessage } from '../../src/message/index.ts'
import { webhookSecret } from '../../src/web/index.ts'

/** A request as a receiver got it. */
interface Got {
  readonly method: string
  readonly url: string
  readonly headers: Record<string, string>
  readonly body: Buffer
}

/** A server on a port of its own, and what came to it. */
export interface Receiver extends AsyncDisposable {
  readonly port: number
  readonly got: Got[]
  /** How many connections were made, whatever was sent on them. */
  readonly connections: number
}

/** A key and a certificate for `localhost`, `127.0.0.1` and others, signed by itself. */
export function certificate(...names: readonly string[]): { readonly key: string; readonly cert: string } {
  const directory = mkdtempSync(join(tmpdir(), 'hapax-certificate-'))
  try {
    const [key, cert] = [join(directory, 'key.pem'), join(directory, 'cert.pem')]
    const subject = ['-subj', '/CN=hapax-test', '-addext', `subjectAltName=${names.join(',')}`]
    const made = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
    execFileSync('openssl', [...made, '-keyout', key, '-out', cert, ...subject], { stdio: 'ignore' })
    return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Answers each request with 200, or as `answer` does. `tls`: its certificate. */
export async function receiver(
  answer: RequestListener = (_, response) => void response.end('thanks'),
  { tls, host = '127.0.0.1' }: { tls?: ServerOptions; host?: string } = {},
): Promise<Receiver> {
  const got: Got[] = []
  const listener: RequestListener = (request, response) => {
    void read(request).then((body) => {
      got.push({ method: request.method ?? '', url: request.url ?? '', headers: headersOf(request), body })
      answer(request, response)
    })
  }
  return listening(tls === undefined ? createHttp(listener) : createHttps(tls, listener), got, host)
}

/** Hands each connection to `serve`: for what is no HTTP, or not all of it. */
export async function rawReceiver(serve: (socket: Socket) => void): Promise<Receiver> {
  const server = createTcp((socket) => {
    socket.on('error', () => {})
    serve(socket)
  })
  return listening(server, [], '127.0.0.1')
}

async function listening(server: Server | TcpServer, got: Got[], host: string): Promise<Receiver> {
  const sockets = new Set<Socket>()
  let connections = 0
  server.on('connection', (socket: Socket) => {
    connections += 1
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, host, resolve))
  return {
    port: (server.address() as AddressInfo).port,
    got,
    get connections() {
      return connections
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function read(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks)
}

function headersOf({ headers }: IncomingMessage): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
}

/** An endpoint with this URL. */
export function endpointAt(url: string, over: Partial<Endpoint> = {}): Endpoint {
  return {
    id: 'e1',
    relay: 'partners',
    url,
    types: 'all',
    secrets: [{ secret: webhookSecret(), until: null }],
    enabled: true,
    reason: null,
    note: null,
    createdAt: new Date(),
    changedAt: new Date(),
    ...over,
  }
}

/** A message on its way out. */
export function outgoing(over: Partial<OutgoingMessage> = {}): OutgoingMessage {
  return {
    id: '01939f2e-7a6b-7000-8000-000000000001',
    source: '/shop',
    type: 'order.placed',
    time: '2026-01-02T03:04:05.000Z',
    data: Buffer.from('{"orderId":"17"}'),
    ...over,
  }
}
