import { kafka } from './kafka.ts'
import { mariadb } from './mariadb.ts'
import { nats } from './nats.ts'
import { postgres } from './postgres.ts'
import { rabbitmq } from './rabbitmq.ts'
import { redis } from './redis.ts'
import type { Service } from './service.ts'

/** Every server that is not in front of another one. */
export const services: readonly Service[] = [postgres, mariadb, redis, rabbitmq, nats, kafka]
