import { Redis } from 'ioredis'
import { findPrograms } from './programs.ts'
import type { Service } from './service.ts'

export const redis: Service = {
  title: 'Redis',
  name: 'redis',
  debianPackages: ['redis-server'],
  otherwise: ['container'],
  url: (port) => `redis://127.0.0.1:${port}`,

  find() {
    const programs = findPrograms(['redis-server'], ['/usr/bin', '/usr/local/bin'])
    if (programs === undefined) return undefined
    return {
      from: programs['redis-server'],
      user: 'redis',
      launch: ({ directory, port }) => ({
        prepare: [],
        // Killed at once: the data is thrown away.
        server: { command: [programs['redis-server'], ...settings(directory, port)], stop: 'SIGKILL' },
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

/** As durable as it gets: every write is on disk before it is answered, and nothing is evicted. */
function settings(directory: string, port: number): string[] {
  const values = {
    bind: '127.0.0.1',
    port,
    dir: directory,
    save: '',
    appendonly: 'yes',
    appendfsync: 'always',
    'maxmemory-policy': 'noeviction',
  }
  return Object.entries(values).flatMap(([name, value]) => [`--${name}`, String(value)])
}
