import type { JetStreamManager } from '@nats-io/jetstream'
import type { MsgHdrs, NatsConnection } from '@nats-io/transport-node'
import { HapaxError, loadClient, shownUrl, systemClock, within } from '../../base/index.ts'
import { connectError } from './errors.ts'
import { greeting } from './greeting.ts'
import type { LinkSettings } from './options.ts'

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
      return 'given' in origin ? await this.#probe(origin.given as NatsConnection) : await this.#dial(origin)
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
    return (connection as { options?: { inboxPrefix?: string } }).options?.inboxPrefix ?? '_INBOX'
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
    const { tls } = client as { tls?: { handshakeFirst?: boolean } }
    const there = tls?.handshakeFirst ? urls : await greeting(urls, timeoutMs)
    if (there.length > 0) return there
    throw new HapaxError('broker-unavailable', `NATS did not answer within ${timeoutMs} ms`)
  }

  async #probe(connection: NatsConnection): Promise<NatsConnection> {
    const { timeoutMs } = this.settings
    await within(systemClock, timeoutMs, connection.flush(), () => {
      throw new HapaxError('broker-unavailable', `the connection to NATS did not answer within ${timeoutMs} ms`)
    })
    return connection
  }
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
