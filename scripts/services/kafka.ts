import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Admin } from '@platformatic/kafka'
import { findPrograms } from './programs.ts'
import type { Service } from './service.ts'

const source = new URL('./kafka-mock.c', import.meta.url)
const header = '/usr/include/librdkafka/rdkafka_mock.h'

/** A protocol mock, where no real broker is named or runs in a container. */
export const kafka: Service = {
  title: 'Kafka',
  name: 'kafka',
  debianPackages: ['gcc', 'libc6-dev', 'librdkafka-dev'],
  otherwise: ['container', 'skip'],
  url: (port) => `kafka://127.0.0.1:${port}`,

  find() {
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
  },

  async ping(url) {
    const admin = new Admin({
      clientId: 'hapax-services',
      bootstrapBrokers: [new URL(url).host],
      connectTimeout: 5_000,
      retries: false,
    })
    try {
      await admin.metadata({ topics: [] })
      const apis = await admin.listApis()
      return apis.some(({ name }) => name === 'CreateTopics') ? 'Kafka broker' : 'Kafka protocol mock'
    } finally {
      await admin.close()
    }
  },
}
