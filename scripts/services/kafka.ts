import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { kafkaBroker } from './kafka-broker.ts'
import { pingKafka } from './kafka-ping.ts'
import { findPrograms } from './programs.ts'
import { type Installation, LOOPBACK, type Service } from './service.ts'

const source = new URL('./kafka-mock.c', import.meta.url)
const header = '/usr/include/librdkafka/rdkafka_mock.h'

/** A protocol mock, unless a URL or `KAFKA_HOME` names a real broker. */
export const kafka: Service = {
  title: 'Kafka',
  name: 'kafka',
  debianPackages: ['gcc', 'libc6-dev', 'librdkafka-dev'],
  otherwise: ['container', 'skip'],
  url: (port, address = LOOPBACK) => `kafka://${address}:${port}`,
  find: () => (process.env.KAFKA_HOME ? kafkaBroker.find() : findMock()),
  ping: pingKafka,
}

/** The mock, for tests that need errors on request. */
export const kafkaMock: Service = { ...kafka, find: findMock }

function findMock(): Installation | undefined {
  const programs = findPrograms(['gcc'], [])
  if (programs === undefined || !existsSync(header)) return undefined
  return {
    from: 'librdkafka',
    user: 'nobody',
    launch: ({ directory, port }) => {
      const mock = join(directory, 'kafka-mock')
      return {
        files: { 'kafka-mock.c': readFileSync(source, 'utf8') },
        prepare: [[programs.gcc, '-O1', '-o', mock, `${mock}.c`, '-lrdkafka']],
        server: { command: [mock, String(port)], stop: 'SIGKILL' },
      }
    },
  }
}
