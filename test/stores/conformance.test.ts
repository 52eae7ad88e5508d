import { once } from 'node:events'
import { createServer, connect as dial } from 'node:net'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect as connectNats } from '@nats-io/transport-node'
import { connect as connectAmqp } from 'amqplib'
import { Redis } from 'ioredis'
import mysql2 from 'mysql2/promise'
import { describe, expect, it } from 'vitest'
import { freePort } from '../../scripts/services/port.ts'
import { KafkaProxy } from '../../src/conformance/brokers/kafka-proxy.ts'
import { LinkProxy } from '../../src/conformance/brokers/link-proxy.ts'
import { PlainKafka } from '../../src/conformance/brokers/plain-kafka.ts'
import { RabbitmqPlace } from '../../src/conformance/brokers/rabbitmq.ts'
import { Places } from '../../src/conformance/brokers/targets.ts'
import { conformance, type Report, run } from '../support/conformance.ts'
import { kafkaServer } from '../support/kafka-server.ts'
import { pgPool } from '../support/pg-pool.ts'
import { requireServer, testBrokers, testStores, withoutRedis } from '../support/servers.ts'

describe.skipIf(!testStores().includes('postgres'))('on PostgreSQL', () => {
  const schemas = async (): Promise<string[]> => {
    const admin = pgPool({ connectionString: requireServer('postgres'), max: 1 })
    const text = `select nspname as name from pg_namespace where nspname like 'hapax\\_conformance\\_%'`
    const { rows } = await admin.query<{ name: string }>(text)
    await admin.end()
    return rows.map(({ name }) => name)
  }
  /** The names of this run: others may be running. */
  const left = async ({ stdout }: Report): Promise<string[]> => {
    const [name = 'none'] = /hapax_conformance_\w+/.exec(stdout) ?? []
    return (await schemas()).filter((each) => each.startsWith(name))
  }

  it('says what holds, and leaves nothing behind', async () => {
    const report = await run('--store', requireServer('postgres'), 'A1:')
    expect(report).toMatchObject({ exitCode: 0, stderr: '' })
    expect(report.stdout).toMatch(
      /^creating schemas called hapax_conformance_\w+… on postgres:\/\/\S+; they are removed/,
    )
    expect(report.stdout).toMatch(/PostgreSQL \d+\.\d+: 22 cases, 4 at once/)
    expect(report.stdout).toMatch(/22 hold, 0 do not, 0 were skipped, in/)
    expect(await left(report)).toEqual([])
  })

  it('says what does not hold on an engine that rolls back at COMMIT, with its sentence and error', async () => {
    await using liar = await rollingBack(requireServer('postgres'))
    const report = await run('--store', liar.url, 'receipts: processes a first delivery')
    expect(report.exitCode).toBe(1)
    expect(report.stdout).toContain('does not hold  receipts: processes a first delivery: effect and receipt are there')
    expect(report.stdout).toContain('0 hold, 3 do not')
    expect(await left(report)).toEqual([])
  })

  it('takes a list of hosts, and tries the one that takes writes', async () => {
    const { host, username, pathname } = new URL(requireServer('postgres'))
    const nobody = `127.0.0.1:${await freePort()}`
    const url = `postgres://${username}@${nobody},${host}${pathname}?target_session_attrs=read-write`
    const report = await run('--store', url, 'A1:')
    expect(report).toMatchObject({ exitCode: 0, stderr: '' })
    expect(report.stdout).toMatch(/22 hold, 0 do not/)
    expect(await left(report)).toEqual([])

    const listed = await conformance(['--store', 'postgres://one.invalid:1,two.invalid:2/x', '--list'])
    expect(listed).toMatchObject({ exitCode: 0, stderr: '' })
    const standby = await run('--store', 'postgres://one:1,two:2/x?target_session_attrs=standby', 'A1:')
    expect(standby).toMatchObject({ exitCode: 2 })
    expect(standby.stderr).toMatch(/target_session_attrs=read-write/)
    expect(standby.stderr).not.toMatch(/Kafka/)
  })

  it('prints JSON', async () => {
    const { exitCode, stdout } = await conformance([
      '--store',
      requireServer('postgres'),
      '--only',
      'receipts: processes a first',
      '--yes',
      '--json',
    ])
    expect(exitCode).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ holds: 3, fails: 0, skipped: 0, notRun: 0, strays: [] })
  })

  it.each([10, 60, 2_000])('removes everything when it is interrupted after %d ms', async (ms) => {
    let isKilled = false
    const report = await conformance(['--store', requireServer('postgres'), '--yes'], (text, kill) => {
      if (isKilled || !text.includes('at once')) return
      isKilled = true
      setTimeout(() => kill('SIGINT'), ms)
    })
    expect(report.exitCode).toBe(1)
    expect(report.stdout).toMatch(/were not run/)
    expect(await left(report)).toEqual([])
  })

  it('asks first, lists cases without a server, and says in one sentence why a server cannot be used', async () => {
    const url = requireServer('postgres')
    const asked = await conformance(['--store', url])
    expect(asked).toMatchObject({ exitCode: 1, stdout: '' })
    expect(asked.stderr).toMatch(/^hapax: creating schemas .* needs --yes when there is no terminal \(refused\)/)

    const listed = await conformance(['--store', 'postgres://nowhere.invalid/x', '--list', '--only', 'A1:'])
    expect(listed.exitCode).toBe(0)
    expect(listed.stdout).toMatch(/22 of [\d,]+ cases/)

    const unreached = await run('--store', 'postgres://127.0.0.1:1/x', 'A1:')
    expect(unreached).toMatchObject({ exitCode: 1 })
    expect(unreached.stderr).toMatch(/^hapax: postgres:\/\/127\.0\.0\.1:1\/x cannot be used: .*ECONNREFUSED.*\n$/)

    const admin = pgPool({ connectionString: url, max: 1 })
    const role = `poor_${process.pid}`
    await admin.query(`create role ${role} login`)
    const poor = new URL(url)
    poor.username = role
    const refused = await run('--store', poor.href, 'A1:')
    await admin.query(`drop role ${role}`)
    await admin.end()
    expect(refused.exitCode).toBe(1)
    expect(refused.stderr).toContain('permission denied for database')
    expect(refused.stderr).toContain('the user must be allowed to create schemas')

    const unknown = await run('--store', 'oracle://x', 'A1:')
    expect(unknown).toMatchObject({ exitCode: 2 })
  })
})

describe.skipIf(!testStores().includes('mysql'))('on MariaDB', () => {
  it('says what holds, and leaves nothing behind', async () => {
    const report = await run('--store', requireServer('mysql'), 'ended transactions')
    expect(report).toMatchObject({ exitCode: 0, stderr: '' })
    expect(report.stdout).toMatch(/(MariaDB|MySQL) \d+\.\d+/)
    const client = await mysql2.createConnection(requireServer('mysql'))
    const [name = 'none'] = /hapax_conformance_\w+/.exec(report.stdout) ?? []
    const [rows] = await client.query(`show databases like '${name}%'`)
    await client.end()
    expect(rows).toEqual([])
  })
})

describe.skipIf(withoutRedis() !== undefined)('on Redis', () => {
  it.each([
    ['--store', 'claiming'],
    ['--broker', 'single reader'],
  ] as const)('says what holds with %s, and leaves no key behind', async (kind, only) => {
    const report = await run(kind, requireServer('redis'), only)
    expect(report).toMatchObject({ exitCode: 0, stderr: '' })
    expect(report.stdout).toMatch(/(Redis|valkey) \d/)
    const client = new Redis(requireServer('redis'))
    const [name = 'none'] = /hapax-conformance-\w+/.exec(report.stdout) ?? []
    const keys = await client.keys(`*${name}*`)
    client.disconnect()
    expect(keys).toEqual([])
  })
})

describe.skipIf(!testBrokers().includes('nats'))('on NATS', () => {
  it('says what holds, and leaves no stream behind', async () => {
    const report = await run('--broker', requireServer('nats'), 'putting back')
    expect(report).toMatchObject({ exitCode: 0, stderr: '' })
    const connection = await connectNats({ servers: requireServer('nats') })
    const names: string[] = []
    for await (const each of (await jetstreamManager(connection)).streams.names()) names.push(...each)
    await connection.close()
    const [name = 'none'] = /HAPAX_CONFORMANCE_\w+/.exec(report.stdout) ?? []
    expect(names.filter((each) => each.startsWith(name))).toEqual([])
  })
})

describe.skipIf(!testBrokers().includes('rabbitmq'))('on RabbitMQ', () => {
  it('says what holds, and leaves no queue or exchange behind', async () => {
    const names = new Set<string>()
    const see = (chunk: Buffer): void => {
      for (const [name] of chunk.toString('latin1').matchAll(/hapax-conformance-[\w.-]+/g)) names.add(name)
    }
    const tap = { sent: see, received: () => {}, ended: () => {} }
    await using proxy = await LinkProxy.open(requireServer('rabbitmq'), () => tap)
    const report = await run('--broker', proxy.url, 'interruptions')
    expect(report).toMatchObject({ exitCode: 0, stderr: '' })
    expect(report.stdout).toMatch(/RabbitMQ \d/)
    expect(names.size).toBeGreaterThan(5)
    const connection = await connectAmqp(requireServer('rabbitmq'))
    for (const name of names) {
      for (const check of ['checkQueue', 'checkExchange'] as const) {
        const channel = await connection.createChannel()
        channel.on('error', () => {})
        await expect(channel[check](name), name).rejects.toThrow(/NOT.FOUND/)
      }
    }
    await connection.close()
  })

  it('says what it could not remove, after it has removed the rest', async () => {
    const url = requireServer('rabbitmq')
    const places = new Places()
    const [cut, left] = [await RabbitmqPlace.open(url), await RabbitmqPlace.open(url)]
    for (const place of [cut, left]) await places.add(Promise.resolve(place))
    await left.declare('billing', {})
    // A queue that belongs to another connection cannot be deleted.
    const owner = await connectAmqp(url)
    await (await owner.createChannel()).assertQueue(cut.queue('owned'), { exclusive: true })
    await expect(cut.declare('owned', {})).rejects.toThrow(/LOCKED/)
    try {
      await expect(places.close()).rejects.toThrow(/RESOURCE.LOCKED/)
      const checking = await owner.createChannel()
      checking.on('error', () => {})
      await expect(checking.checkQueue(left.queue('billing'))).rejects.toThrow(/NOT.FOUND/)
    } finally {
      const cleaning = await owner.createChannel()
      await cleaning.deleteQueue(left.queue('billing'))
      for (const { exchange } of [cut, left]) await cleaning.deleteExchange(exchange)
      await owner.close()
    }
  })
})

describe('on a server that never answers', () => {
  it.each([
    ['--store', 'postgres'],
    ['--store', 'mysql'],
    ['--broker', 'amqp'],
  ])('can be interrupted: %s %s', async (kind, scheme) => {
    const silent = createServer((socket) => socket.on('error', () => {}))
    await once(silent.listen(0, '127.0.0.1'), 'listening')
    const { port } = silent.address() as { port: number }
    const connected = once(silent, 'connection')
    const report = await conformance([kind, `${scheme}://127.0.0.1:${port}/x`, '--yes'], (_, kill) => {
      void connected.then(() => kill('SIGINT'))
    })
    silent.close()
    expect(report).toMatchObject({ exitCode: 1, stderr: 'hapax: nothing was tried (interrupted)\n' })
  })
})

describe.skipIf(!testBrokers().includes('kafka') || kafkaServer === undefined)(`on ${kafkaServer}`, () => {
  it('says what holds', async () => {
    const report = await run('--broker', requireServer('kafka'), 'single reader: E3: continues in order after a cut')
    expect(report).toMatchObject({ exitCode: 0, stderr: '' })
    expect(report.stdout).toMatch(
      /^creating topics and groups called hapax_conformance_\w+… on kafka:\/\/\S+; they are removed/,
    )
    expect(report.stdout).toMatch(/1 hold, 0 do not, 0 were skipped, in/)
  })

  it('stands between the clients and every broker', async () => {
    const plain = await PlainKafka.open(requireServer('kafka'))
    await using proxy = await KafkaProxy.open(await plain.brokers())
    const through = await PlainKafka.open(proxy.url)
    const announced = (await through.brokers()).map(({ host, port }) => `${host}:${port}`)
    await Promise.all([plain.close(), through.close()])
    expect(`kafka://${announced.join(',')}`).toBe(proxy.url)
  })

  it('takes a list of brokers', async () => {
    const listed = await conformance(['--broker', 'kafka://nowhere.invalid,elsewhere.invalid:9092', '--list'])
    expect(listed).toMatchObject({ exitCode: 0, stderr: '' })
  })
})

describe('a password in a URL is never printed', () => {
  const secret = 's3cr3t'
  const login = `nobody:${secret}@`
  const told = async (...argv: string[]): Promise<void> => {
    const { exitCode, stdout, stderr } = await conformance([...argv, '--yes'])
    expect(exitCode, argv.join(' ')).toBeGreaterThan(0)
    expect(stderr).toMatch(/^hapax: /)
    expect(stdout + stderr).not.toContain(secret)
  }

  it.each([
    ['--store', `foo://${login}host`],
    ['--store', `${login}host`],
    ['--store', `postgres:${login}127.0.0.1:1`],
    ['--store', `postgres://nobody:/${secret}@host`],
    [`--stor=postgres://${login}host`],
    [`postgres://${login}host`],
    ['--broker', `kafka://${login}host`],
  ])('in a wrong command: %s %s', async (...argv) => {
    await told(...argv)
  })

  it.each([
    ['--store', 'postgres'],
    ['--store', 'mysql'],
    ['--store', 'redis'],
    ['--broker', 'amqp'],
    ['--broker', 'nats'],
    ['--broker', 'redis'],
  ])('where no server listens: %s %s', async (kind, scheme) => {
    await told(kind, `${scheme}://${login}127.0.0.1:1/x`)
  })

  const refusing = [
    ...(testStores().includes('mysql') ? [['--store', 'mysql'] as const] : []),
    ...(withoutRedis() === undefined ? [['--store', 'redis'] as const, ['--broker', 'redis'] as const] : []),
    ...(testBrokers().includes('rabbitmq') ? [['--broker', 'rabbitmq'] as const] : []),
  ]
  it.each(refusing)('where the server refuses it: %s %s', async (kind, server) => {
    await told(kind, requireServer(server).replace(/:\/\/(?:[^@/]*@)?/, `://${login}`))
  })
})

/** A server that rolls transactions of handlers back where it is told to commit them. */
async function rollingBack(url: string): Promise<{ readonly url: string } & AsyncDisposable> {
  const { hostname, port } = new URL(url)
  const server = createServer((client) => {
    const real = dial(Number(port), hostname)
    client.on('data', (chunk) => {
      const text = chunk.toString('latin1')
      real.write(
        text.includes('release savepoint') ? Buffer.from(text.replaceAll('commit', 'abort '), 'latin1') : chunk,
      )
    })
    real.pipe(client)
    for (const [one, other] of [
      [client, real],
      [real, client],
    ] as const) {
      one.on('error', () => {})
      one.on('close', () => other.destroy())
    }
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const through = new URL(url)
  through.host = `127.0.0.1:${(server.address() as { port: number }).port}`
  return {
    url: through.href,
    [Symbol.asyncDispose]: async () => {
      server.close()
    },
  }
}
