import { chromium } from './chromium.ts'
import { faketime } from './faketime.ts'
import { galera, rsync } from './galera.ts'
import { iproute } from './iproute.ts'
import { kafka } from './kafka.ts'
import { kcat } from './kcat.ts'
import { mariadb } from './mariadb.ts'
import { nats } from './nats.ts'
import { postgres } from './postgres.ts'
import { prometheus } from './prometheus.ts'
import { rabbitmq } from './rabbitmq.ts'
import { redis } from './redis.ts'
import type { Installable, Service } from './service.ts'
import { symfony } from './symfony.ts'

/** Every server that is not in front of another one. */
export const services: readonly Service[] = [postgres, mariadb, redis, rabbitmq, nats, kafka]

/** Programs that are only installed: each test that needs one starts its own. Where that fails, these tests are skipped. */
export const onlyInstalled: readonly Installable[] = [
  prometheus,
  chromium,
  iproute,
  kcat,
  galera,
  rsync,
  faketime,
  symfony,
]
