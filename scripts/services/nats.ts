import { join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { findPrograms } from './programs.ts'
import { type Instance, LOOPBACK, type Service } from './service.ts'

export const nats: Service = {
  title: 'NATS',
  name: 'nats',
  debianPackages: ['nats-server'],
  otherwise: ['container'],
  url: (port, address = LOOPBACK) => `nats://${address}:${port}`,

  find() {
    const programs = findPrograms(['nats-server'], ['/usr/sbin', '/usr/local/bin'])
    if (programs === undefined) return undefined
    return {
      from: programs['nats-server'],
      user: 'nats',
      launch: (instance) => ({
        prepare: [],
        // Killed at once: the data is thrown away.
        server: { command: [programs['nats-server'], ...settings(instance)], stop: 'SIGKILL' },
      }),
    }
  },

  ping: (url) =>
    connected(url, async (connection) => {
      // The server answers before JetStream does.
      await (await jetstreamManager(connection)).getAccountInfo()
      return `NATS ${connection.info?.version}`
    }),

  // With the last stream the server removes the folder of all streams, and another one that is being made at that moment fails:
  // "error creating store for stream". This one stays.
  prepareSharing: (url) =>
    connected(url, async (connection) => {
      await (await jetstreamManager(connection)).streams.add({ name: 'HAPAX_TEST_KEPT', subjects: ['hapax-test-kept'] })
    }),
}

async function connected<T>(url: string, use: (connection: NatsConnection) => Promise<T>): Promise<T> {
  const connection = await connect({ servers: url, timeout: 5_000, reconnect: false })
  try {
    return await use(connection)
  } finally {
    await connection.close()
  }
}

// A message is acknowledged when it is written, and synced to disk minutes later: it survives the end of the process, not that
// of the machine. Only 2.10 and later can be told to sync before (`sync_interval: always`); 2.9 refuses that setting.
function settings({ directory, port, address }: Instance): string[] {
  return ['--addr', address, '--port', String(port), '--jetstream', '--store_dir', join(directory, 'data')]
}
