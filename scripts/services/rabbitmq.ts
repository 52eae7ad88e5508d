import { dirname, join } from 'node:path'
import { connect } from 'amqplib'
import { findPrograms } from './programs.ts'
import { LOOPBACK, type Service } from './service.ts'

export const rabbitmq: Service = {
  title: 'RabbitMQ',
  name: 'rabbitmq',
  debianPackages: ['rabbitmq-server'],
  otherwise: ['container'],
  url: (port, address = LOOPBACK) => `amqp://guest:guest@${address}:${port}`,

  find() {
    // Debian puts a wrapper on the PATH that changes account and folder. The script itself lies beside `rabbitmq-env`.
    const programs = findPrograms(['rabbitmq-env', 'erl'], ['/usr/lib/rabbitmq/bin', '/opt/homebrew/sbin'])
    if (programs === undefined) return undefined
    const server = join(dirname(programs['rabbitmq-env']), 'rabbitmq-server')
    return {
      from: server,
      user: 'rabbitmq',
      launch: ({ directory, port, address }) => ({
        files: { 'rabbitmq.conf': rabbitmqSettings(port, address) },
        prepare: [],
        // Killed at once: the data is thrown away.
        server: { command: ['env', ...environment(directory, address), server], stop: 'SIGKILL' },
      }),
    }
  },

  async ping(url) {
    const connection = await connect(url, { timeout: 5_000 })
    connection.on('error', () => {})
    try {
      return `RabbitMQ ${connection.connection.serverProperties.version}`
    } finally {
      await connection.close()
    }
  },
}

/** The settings of a node that listens there. */
export function rabbitmqSettings(port: number, address: string): string {
  return `listeners.tcp.default = ${address}:${port}
loopback_users = none
log.console = true
`
}

function environment(directory: string, address: string): string[] {
  const values = {
    ...(address === LOOPBACK
      ? { RABBITMQ_NODENAME: ALONE }
      : { RABBITMQ_NODENAME: rabbitmqNode(address), RABBITMQ_USE_LONGNAME: 'true' }),
    HOME: directory,
    RABBITMQ_MNESIA_BASE: join(directory, 'data'),
    RABBITMQ_LOG_BASE: join(directory, 'logs'),
    RABBITMQ_PID_FILE: join(directory, 'pid'),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(directory, 'plugins'),
    // Nothing that this machine has in /etc/rabbitmq.
    RABBITMQ_CONF_ENV_FILE: join(directory, 'none'),
    RABBITMQ_CONFIG_FILE: join(directory, 'rabbitmq.conf'),
    RABBITMQ_CONFIG_FILES: join(directory, 'none', '*.conf'),
    RABBITMQ_ADVANCED_CONFIG_FILE: join(directory, 'advanced.config'),
    RABBITMQ_LOGS: '-',
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: [
      ...(address === LOOPBACK ? withoutDistribution : ['-setcookie', RABBITMQ_COOKIE]),
      ...awakeForFiles,
    ].join(' '),
    // The script then becomes the server, instead of waiting for it: signals reach it.
    detached: 'true',
  }
  return Object.entries(values).map(([name, value]) => `${name}=${value}`)
}

const ALONE = 'rabbit@localhost'

/** The secret that nodes of a cluster share, and those who ask them. */
export const RABBITMQ_COOKIE = 'hapax'

/** The name of a node that has an address of its own, and may be a part of a cluster. */
export function rabbitmqNode(address: string): string {
  return `rabbit@${address}`
}

/**
 * A node that listens to no other and does not ask epmd about itself: it needs no second port and no daemon that outlives it,
 * and two of the same name do not meet. The last option answers the one question that is left, for the port of this node.
 */
const withoutDistribution = ['-sname', ALONE, '-dist_listen false', '-start_epmd false', '-erl_epmd_port 1']

/** A start reads a thousand files, one after the other: the threads that do it wait a little before they sleep. */
const awakeForFiles = ['+sbwtdio', 'very_short']
