// Runs the conformance suites against a server that only a URL is known of, and leaves nothing behind there.
//
// A ground or a place is what a case works on: schemas, queues, streams. Their names begin with that of the run, so that the sweep at
// the end finds what cases have left. The tests of hapax itself run on the same grounds and places.

import { kafkaTarget, natsTarget, rabbitmqTarget, redisStreamsTarget } from './brokers/targets.ts'
import { mysqlTarget, postgresTarget, redisTarget } from './stores/targets.ts'
import type { OpenTarget } from './target.ts'

export { collectingStrays, type Outcome, runCases } from './run.ts'
export type { ConformanceCase, OpenTarget, Target } from './target.ts'

/** By the scheme of the URL. */
export const storeTargets: Readonly<Record<string, OpenTarget>> = {
  postgres: postgresTarget,
  postgresql: postgresTarget,
  mysql: mysqlTarget,
  mariadb: mysqlTarget,
  redis: redisTarget,
  rediss: redisTarget,
}

/** By the scheme of the URL. */
export const brokerTargets: Readonly<Record<string, OpenTarget>> = {
  amqp: rabbitmqTarget,
  amqps: rabbitmqTarget,
  nats: natsTarget,
  tls: natsTarget,
  kafka: kafkaTarget,
  redis: redisStreamsTarget,
  rediss: redisStreamsTarget,
}
