import type { JetStreamManager } from '@nats-io/jetstream'
import type { MsgHdrs, NatsConnection } from '@nats-io/transport-node'
import { expected, fieldOf, HapaxError, loadClient, shownUrl, systemClock, within } from '../../base/index.ts'
import { connectError } from './errors.ts'
import { greeting } from './greeting.ts'
import type { LinkSettings, NatsConnectionLike } from './options.ts'

/** The client libraries, loaded when they are needed, and how to get a connection. */
export class Client {
  readonly settings: LinkSettings
  readonly #modules: Modules

  private constructor(settings: LinkSettings, modules: Modules) {
    this.settings = settings
    this.#modules = modules
  }

  static async load(settings: LinkSettings): Promise<Client> {
    const load = () => Promise.all([import('@nats-io/transport-node'), import('@nats-io/jetstream')])
    const packages = ['@nats-io/transport-node', '@nats-io/jetstream'] as const
    const [transport, jetstream] = await loadClient('nats()', packages, load)
    return new Client(settings, { ...transport, ...jetstream })
  }

  headers(): MsgHdrs {
    return this.#modules.headers()
  }

  manager(connection: NatsConnection): Promise<JetStreamManager> {
    return this.#modules.jetstreamManager(connection, { checkAPI: false, timeout: this.settings.timeoutMs })
  }

  /** A connection that is there now. */
  async connect(): Promise<NatsConnection> {
    const { origin } = this.settings
    try {
      return 'given' in origin ? await this.#probe(origin.given) : await this.#dial(origin)
    } catch (error) {
      throw connectError(error, 'given' in origin ? '' : ` at ${origin.urls.map(shownUrl).join(', ')}`)
    }
  }

  /** Whether connections are hapax's own, and are closed by it. */
  get owns(): boolean {
    return !('given' in this.settings.origin)
  }

  /** Under which subjects answers come. */
  inboxPrefix(connection: NatsConnection): string {
    const prefix = fieldOf(fieldOf(connection, 'options'), 'inboxPrefix')
    return typeof prefix === 'string' ? prefix : '_INBOX'
  }

  /** Each connection is used until it breaks, so that nothing that was meant for one is ever sent on the next. */
  async #dial({
    urls,
    client,
  }: {
    readonly urls: readonly string[]
    readonly client: object
  }): Promise<NatsConnection> {
    const { heartbeatMs, timeoutMs } = this.settings
    const there = await this.#there(urls, client)
    return this.#modules.connect({
      name: 'hapax',
      ...loginOf(urls),
      ...client,
      servers: there.map((url) => new URL(url).host),
      timeout: timeoutMs,
      reconnect: false,
      pingInterval: Math.ceil(heartbeatMs / 3),
      maxPingOut: 2,
    })
  }

  async #there(urls: readonly string[], client: object): Promise<readonly string[]> {
    const { timeoutMs } = this.settings
    // With such a server the client has to speak first.
    const speaksFirst = fieldOf(fieldOf(client, 'tls'), 'handshakeFirst') === true
    const there = speaksFirst ? urls : await greeting(urls, timeoutMs)
    if (there.length > 0) return there
    throw new HapaxError('broker-unavailable', `NATS did not answer within ${timeoutMs} ms`)
  }

  async #probe(connection: NatsConnectionLike): Promise<NatsConnection> {
    const { timeoutMs } = this.settings
    if (!isConnection(connection)) expected('connection', 'a connection of @nats-io/transport-node', connection)
    await within(systemClock, timeoutMs, connection.flush(), () => {
      throw new HapaxError('broker-unavailable', `the connection to NATS did not answer within ${timeoutMs} ms`)
    })
    return connection
  }
}

/** Whether a connection has the methods that JetStream and the links call, and not only those that the option names. */
function isConnection(given: NatsConnectionLike): given is NatsConnection {
  return ['publish', 'subscribe', 'request', 'flush', 'status', 'isClosed'].every((method) => {
    return typeof fieldOf(given, method) === 'function'
  })
}

interface Modules {
  connect: typeof import('@nats-io/transport-node')['connect']
  headers: typeof import('@nats-io/transport-node')['headers']
  jetstreamManager: typeof import('@nats-io/jetstream')['jetstreamManager']
}

/** The client does not read what stands before the host. */
function loginOf(urls: readonly string[]): object {
  const parsed = urls.map((url) => new URL(url))
  const tls = parsed.some(({ protocol }) => protocol === 'tls:') ? { tls: {} } : {}
  const { username, password } = parsed.find(({ username }) => username !== '') ?? { username: '', password: '' }
  if (username === '') return tls
  const user = decodeURIComponent(username)
  return password === '' ? { ...tls, token: user } : { ...tls, user, pass: decodeURIComponent(password) }
}
