import { type Destination, isHapaxError } from 'hapax'
import { kafka } from 'hapax/kafka'
import { nats } from 'hapax/nats'
import { rabbitmq } from 'hapax/rabbitmq'
import { redisStreams } from 'hapax/redis-streams'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { shownUrl } from '../../src/base/links.ts'
import { message, publish } from '../../src/testing/broker/world.ts'
import { requireServer, testBrokers } from '../support/servers.ts'

/** Makes a destination on a URL. */
type Make = (url: string) => Destination

const MAKE = {
  rabbitmq: (url) => rabbitmq({ url, timeoutMs: 30_000 }).exchange('shop', { declare: 'none' }),
  nats: (url) => nats({ url, timeoutMs: 30_000 }).stream('SHOP'),
  redis: (url) => redisStreams({ url, timeoutMs: 30_000 }).stream('hapax-reaching'),
  kafka: (url) => kafka({ url }).topic('shop', { publishTimeoutMs: 30_000 }),
} satisfies Record<string, Make>

type Broker = keyof typeof MAKE

/** What a destination says of a server that it cannot use. */
async function complaint(destination: Destination): Promise<string> {
  onTestFinished(() => destination.close())
  const [told] = await publish(destination, [message('a')])
  expect(told?.status).toBe('unavailable')
  return told?.status === 'unavailable' && isHapaxError(told.error) ? `${told.error.code}: ${told.error.message}` : ''
}

/** The server's URL, otherwise. */
function otherwise(server: Parameters<typeof requireServer>[0], change: (url: URL) => void): string {
  const url = new URL(requireServer(server))
  change(url)
  return url.href
}

const listed = testBrokers()
const there = (broker: Broker): boolean => listed.some((name) => name.startsWith(broker))

const credentials = (url: URL): void => {
  url.username = 'somebody'
  url.password = 'geheim'
}

describe.for(Object.keys(MAKE).filter((name) => there(name as Broker)) as Broker[])('%s', (broker) => {
  const scheme = broker === 'rabbitmq' ? 'amqp' : broker

  it('says where nobody listens, and what to look at', async () => {
    const user = broker === 'kafka' ? '' : 'somebody:geheim@'
    const said = await complaint(MAKE[broker](`${scheme}://${user}127.0.0.1:1`))
    expect(said).toMatch(new RegExp(`^broker-unavailable: .* at ${scheme}://127.0.0.1:1: .*is the server running`))
    expect(said).not.toMatch(/somebody|geheim/)
  })

  it('says which host is not known', async () => {
    const said = await complaint(MAKE[broker](`${scheme}://nohost.invalid`))
    expect(said).toMatch(/nohost\.invalid.*is the name of the host right\?$/)
  })

  it.for(['http://somebody:geheim@127.0.0.1', `${scheme}://somebody:geheim@127.0.0.1:99999`, 'geheim', 'a:geheim@b'])(
    'refuses %s at once, without telling who',
    (url) => {
      expect(() => MAKE[broker](url)).toThrow(/^expected (url|brokers) to be .*(like|list)/)
      expect(() => MAKE[broker](url)).not.toThrow(/somebody|geheim/)
    },
  )
})

describe.runIf(there('rabbitmq'))('rabbitmq', () => {
  const sayings = [
    ['a wrong password', credentials, /^broker-refused: .*it refuses the user or the password/],
    ['a wrong virtual host', (url: URL) => (url.pathname = '/nowhere'), /^broker-refused: .*\/nowhere: .*virtual host/],
    ['TLS where there is none', (url: URL) => (url.href = url.href.replace(/^amqp/, 'amqps')), /does not speak TLS/],
  ] as const
  it.for(sayings)('says what is wrong with %s', async ([, change, sentence]) => {
    const said = await complaint(MAKE.rabbitmq(otherwise('rabbitmq', change)))
    expect(said).toMatch(sentence)
    expect(said).not.toMatch(/somebody|geheim|guest/)
  })
})

describe.runIf(there('nats'))('nats', () => {
  it('says that there is no TLS', async () => {
    const url = requireServer('nats').replace(/^nats/, 'tls')
    expect(await complaint(MAKE.nats(url))).toMatch(/at tls:.*does not speak TLS on this port$/)
  })
})

describe.runIf(there('redis'))('redis', () => {
  const wrong = otherwise.bind(undefined, 'redis', (url) => (url.pathname = '/99'))

  it('says that the user or the password is wrong', async () => {
    const said = await complaint(MAKE.redis(otherwise('redis', credentials)))
    expect(said).toMatch(/^broker-refused: .*it refuses the user or the password/)
    expect(said).not.toMatch(/somebody|geheim/)
  })

  it('says what listens there instead', async () => {
    const url = new URL(requireServer(there('rabbitmq') ? 'rabbitmq' : 'nats'))
    expect(await complaint(MAKE.redis(`redis://${url.host}`))).toMatch(/is it Redis that listens there\?$/)
  })

  it.for([
    ['the number of a database in the URL', () => MAKE.redis(wrong())],
    ['that of a client of ioredis', () => redisStreams({ client: ioredis(wrong()) }).stream('hapax-reaching')],
    ['that of a client of redis', () => redisStreams({ client: nodeRedis(wrong()) }).stream('hapax-reaching')],
  ] as const)('sends nothing to another database when %s is too high', async ([, make]) => {
    expect(await complaint(make())).toMatch(/^broker-refused: .*it has no database of this number/)
    const client = ioredis(requireServer('redis'))
    expect(await client.exists('hapax-reaching')).toBe(0)
  })

  it.for([
    ['the URL', (url: string) => redisStreams({ url })],
    ['a client of ioredis', (url: string) => redisStreams({ client: ioredis(url) })],
    ['a client of redis', (url: string) => redisStreams({ client: nodeRedis(url) })],
  ] as const)('sends to the database that %s names', async ([what, make]) => {
    const url = otherwise('redis', (each) => (each.pathname = '/3'))
    const key = `hapax-reaching ${what}`
    const destination = make(url).stream(key)
    onTestFinished(() => destination.close())
    expect(await publish(destination, [message('a')])).toEqual([{ status: 'confirmed' }])
    const client = ioredis(url)
    expect(await client.xlen(key)).toBe(1)
    await client.del(key)
  })

  it.for(['/abc', '/1/2', '/-1', '?db=x'])('refuses a URL that ends in %s', (path) => {
    expect(() => MAKE.redis(`redis://localhost${path}`)).toThrow('the number of a database')
  })
})

function ioredis(url: string): Redis {
  const client = new Redis(url, { lazyConnect: true })
  client.on('error', () => {})
  onTestFinished(() => client.disconnect())
  return client
}

function nodeRedis(url: string): ReturnType<typeof createClient> {
  return createClient({ url })
}

it.for([
  ['amqp://guest:guest@host:5672/shop?heartbeat=3', 'amqp://host:5672/shop'],
  ['nats://token@host', 'nats://host'],
  ['redis://:p@ss/w@host/0', 'redis://host/0'],
  ['amqp:/host', 'amqp:/host'],
  ['user:password@host', 'something that is not a URL'],
  [undefined, 'something that is not a URL'],
] as const)('shows %s as %s', ([url, shown]) => {
  expect(shownUrl(url)).toBe(shown)
})
