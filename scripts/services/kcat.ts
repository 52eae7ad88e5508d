import { findPrograms } from './programs.ts'
import type { Installable } from './service.ts'

/** A client of Kafka that is made with librdkafka; for tests that talk to it. */
export const kcat: Installable = {
  title: 'kcat',
  debianPackages: ['kcat'],
  find() {
    const programs = findPrograms(['kcat'], [])
    return programs && { from: programs.kcat }
  },
}
