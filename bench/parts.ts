import { consolePages } from './console.ts'
import { engine } from './engine.ts'
import { growth, growthMysql, growthSqlite } from './growth.ts'
import { http } from './http.ts'
import { latency } from './latency.ts'
import { memory } from './memory.ts'
import { mysql } from './mysql.ts'
import type { Part } from './part.ts'
import { peers } from './peers.ts'
import { postgres } from './postgres.ts'
import { rabbitmq } from './rabbitmq.ts'
import { redis } from './redis.ts'
import { relays } from './relays.ts'
import { sqlite } from './sqlite.ts'
import { telemetry } from './telemetry.ts'

/** Every part, in the order of the report. A new part is a file with a `Part`, and one line here. */
export const parts: readonly Part[] = [
  postgres,
  peers,
  latency,
  engine,
  mysql,
  sqlite,
  redis,
  http,
  rabbitmq,
  relays,
  telemetry,
  consolePages,
  growth,
  growthMysql,
  growthSqlite,
  memory,
]
