import { Redis } from 'ioredis'
import { findPrograms, firstProgram } from './programs.ts'
import { type Instance, LOOPBACK, type Service, type Startable } from './service.ts'

export const redis: Service = {
  title: 'Redis',
  name: 'redis',
  debianPackages: ['redis-server'],
  otherwise: ['container'],
  url: (port, address = LOOPBACK) => `redis://${address}:${port}`,

  find() {
    const elsewhere = findPrograms(['redis-server'], ['/usr/bin', '/usr/local/bin'])?.['redis-server']
    const server = firstProgram(['redis-server', 'valkey-server']) ?? elsewhere
    if (server === undefined) return undefined
    return {
      from: server,
      user: 'redis',
      launch: (instance) => ({
        prepare: [],
        // Killed at once: the data is thrown away.
        server: { command: [server, ...settings(instance)], stop: 'SIGKILL' },
      }),
    }
  },

  async ping(url) {
    const client = new Redis(url, { lazyConnect: true, connectTimeout: 5_000, retryStrategy: () => null })
    client.on('error', () => {})
    try {
      await client.connect()
      const info = await client.info('server')
      // Valkey also says which Redis it is compatible with.
      const [, name, version] = /(valkey)_version:(\S+)/.exec(info) ?? /(redis)_version:(\S+)/.exec(info) ?? []
      return `${name === 'valkey' ? 'Valkey' : 'Redis'} ${version}`
    } finally {
      client.disconnect()
    }
  },
}

/** A process that watches servers, and promotes a replica when the primary is gone. What it watches is in its file of settings. */
export const redisSentinel: Startable = {
  title: 'Redis Sentinel',
  name: 'redis-sentinel',
  debianPackages: redis.debianPackages,
  url: redis.url,

  find() {
    const installation = redis.find()
    return (
      installation && {
        ...installation,
        launch: ({ port, address }) => ({
          files: { 'sentinel.conf': sentinelSettings(port, address) },
          prepare: [],
          server: { command: [installation.from, 'sentinel.conf', '--sentinel'], stop: 'SIGKILL' },
        }),
      }
    )
  },

  ping: (url) => redis.ping(url),
}

/** It writes what it learns into the same file. */
export function sentinelSettings(port: number, address: string): string {
  return `bind ${address}
port ${port}
protected-mode no
dir .
`
}

/** As durable as it gets: every write is on disk before it is answered, and nothing is evicted. */
function settings({ directory, port, address }: Instance): string[] {
  const values = {
    bind: address,
    // Whoever reaches the address is a test.
    'protected-mode': 'no',
    port,
    dir: directory,
    save: '',
    appendonly: 'yes',
    appendfsync: 'always',
    'maxmemory-policy': 'noeviction',
  }
  return Object.entries(values).flatMap(([name, value]) => [`--${name}`, String(value)])
}
