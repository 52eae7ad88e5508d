import type { JetStreamManager } from '@nats-io/jetstream'
import type { MsgHdrs, NatsConnection } from '@nats-io/transport-node'
import { expected, fieldOf, HapaxError, loadClient, shownUrl, systemClock, within } from '../../base/index.ts'
import { connectError } from './errors.ts'
import { greeting } from './greeting.ts'
import type { LinkSettings, NatsConnectionLike } from './options.ts'

/** The client libraries, which are loaded on first use, and the way to a connection. */
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

  /** A connection that works now: a new one, or the one that the user gave, after it has answered a ping. */
  async connect(): Promise<NatsConnection> {
    const { origin } = this.settings
    try {
      return 'given' in origin ? await this.#probe(origin.given) : await this.#dial(origin)
    } catch (error) {
      throw connectError(error, 'given' in origin ? '' : ` at ${origin.urls.map(shownUrl).join(', ')}`)
    }
  }

  /** Whether hapax opened the connections, and so closes them. */
  get owns(): boolean {
    return !('given' in this.settings.origin)
  }

  /** The prefix of the subjects that replies come under. Users restrict it by permissions, so theirs has to be kept. */
  inboxPrefix(connection: NatsConnection): string {
    const prefix = fieldOf(fieldOf(connection, 'options'), 'inboxPrefix')
    return typeof prefix === 'string' ? prefix : '_INBOX'
  }

  /** A connection is used until it breaks and never reconnects, so that an ack meant for one is never sent on the next. */
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
    // Such a server waits for the TLS handshake, and does not greet.
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

/** The client ignores the credentials of a URL, so they become options. */
function loginOf(urls: readonly string[]): object {
  const parsed = urls.map((url) => new URL(url))
  const tls = parsed.some(({ protocol }) => protocol === 'tls:') ? { tls: {} } : {}
  const { username, password } = parsed.find(({ username }) => username !== '') ?? { username: '', password: '' }
  if (username === '') return tls
  const user = decodeURIComponent(username)
  return password === '' ? { ...tls, token: user } : { ...tls, user, pass: decodeURIComponent(password) }
}
