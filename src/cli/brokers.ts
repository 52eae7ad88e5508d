import { fieldOf, safe, shownUrl } from '../base/index.ts'
import type { Destination, EndpointDestination } from '../contracts/index.ts'
import { fromEnvironment, readConfig } from './config.ts'
import { CliError } from './io/errors.ts'
import type { Io } from './io/io.ts'
import { stdoutDestination } from './io/stdout-destination.ts'

/** Makes a destination from a URL of one scheme. Imports its client only then: an unused client need not be installed. */
type Opener = (url: string, io: Io) => Promise<Destination | EndpointDestination>

const amqp: Opener = async (url) => {
  const { rabbitmq } = await import('../brokers/rabbitmq/index.ts')
  const { server, place } = split(url, 'exchange', 'shop')
  return rabbitmq({ url: server }).exchange(place)
}

const jetstream: Opener = async (url) => {
  const { nats } = await import('../brokers/nats/index.ts')
  const { server, place } = split(url, 'stream', 'SHOP')
  return nats({ url: server }).stream(place)
}

const redis: Opener = async (url) => {
  const { redisStreams } = await import('../brokers/redis-streams/index.ts')
  const { server, place } = split(url, 'stream', 'orders')
  return redisStreams({ url: server }).stream(place)
}

/** Every scheme that `--broker` accepts. A new broker adds its line here. */
const SCHEMES: Readonly<Record<string, Opener>> = {
  amqp,
  amqps: amqp,
  nats: jetstream,
  tls: jetstream,
  redis,
  rediss: redis,
  kafka: async (url) => {
    const { kafka } = await import('../brokers/kafka/index.ts')
    const { server, place } = split(url, 'topic', 'orders')
    return kafka({ url: server }).topic(place)
  },
  memory: async (url) => {
    const { memoryBroker } = await import('../brokers/memory/index.ts')
    return memoryBroker().topic(rest(url) || 'hapax')
  },
  webhooks: async () => {
    const { webhooks } = await import('../http/webhooks/index.ts')
    return webhooks()
  },
  stdout: async (_, io) => stdoutDestination(io.out),
}

/** Finds the destination of a relay: --broker, then HAPAX_BROKER, then `broker` in the configuration file. */
export async function findDestination(
  options: { readonly broker?: string; readonly config?: string },
  io: Io,
): Promise<Destination | EndpointDestination> {
  const url = options.broker ?? fromEnvironment(options.config, 'HAPAX_BROKER', io) ?? (await fromConfig(options, io))
  if (typeof url === 'object') return url
  if (url === undefined) {
    throw new CliError('usage', 'no broker was given', [
      "on the command line:      --broker 'amqp://localhost?exchange=shop'  (or another URL)",
      'in the environment:       HAPAX_BROKER=…',
      `in a configuration file:  hapax.config.ts with  export default { store, broker: … }, a URL or a destination`,
    ])
  }
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase()
  const open = scheme !== undefined && Object.hasOwn(SCHEMES, scheme) ? SCHEMES[scheme] : undefined
  if (open !== undefined) return open(url, io)
  const schemes = Object.keys(SCHEMES).map((each) => `${each}:`)
  throw new CliError('usage', `expected the broker to be a URL of a known scheme, got ${safe(shownUrl(url))}`, [
    `known schemes: ${schemes.join(', ')}`,
    "for example: --broker 'amqp://localhost?exchange=shop'",
  ])
}

/** Separates the server's own URL from the name in the query, as in `amqp://localhost?exchange=shop`. */
function split(url: string, name: string, example: string): { server: string; place: string } {
  const [server = '', query = ''] = url.split('?', 2)
  const params = new URLSearchParams(query)
  const place = params.get(name)
  if (!place) {
    const scheme = url.slice(0, url.indexOf(':'))
    throw new CliError('usage', `expected the broker's URL to name the ${name}, got none`, [
      `for example: --broker '${scheme}://localhost?${name}=${example}'`,
    ])
  }
  params.delete(name)
  return { server: params.size === 0 ? server : `${server}?${params}`, place }
}

function rest(url: string): string {
  return url.slice(url.indexOf(':') + 1).replace(/^\/\//, '')
}

async function fromConfig(
  { config }: { readonly config?: string },
  io: Io,
): Promise<string | Destination | EndpointDestination | undefined> {
  const found = await readConfig(io, config)
  const broker: unknown = found?.config.broker
  if (broker === undefined || typeof broker === 'string') return broker
  if (isDestination(broker)) return broker
  throw new CliError('config', `expected the broker of ${found?.name} to be a URL or a destination`)
}

function isDestination(value: unknown): value is Destination | EndpointDestination {
  return typeof fieldOf(value, 'publish') === 'function' || fieldOf(value, 'kind') === 'endpoints'
}
