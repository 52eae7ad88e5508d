import { benchEngine } from './engine.ts'
import { benchGrowth } from './growth.ts'
import { benchMemory } from './memory.ts'
import { benchPeers } from './peers.ts'
import { benchPostgres } from './postgres.ts'
import { benchRabbitmq } from './rabbitmq.ts'
import { benchRedis } from './redis.ts'
import { benchSqlite } from './sqlite.ts'

// Ratios of neighbouring runs on the same servers: absolute figures depend on the machine and on what else it does.
const wanted = process.argv.slice(2)
const wants = (name: string): boolean => wanted.length === 0 || wanted.includes(name)

const url = process.env['HAPAX_TEST_POSTGRES']
if (url === undefined && !['sqlite', 'redis'].includes(wanted.join())) {
  throw new Error('HAPAX_TEST_POSTGRES is not set: run this by npm run bench')
}

if (wants('sqlite')) await benchSqlite()
if (wants('postgres')) await benchPostgres(url as string)
if (wants('memory')) await benchMemory(url as string)
if (wants('peers')) await benchPeers(url as string)
if (wants('engine')) await benchEngine(url as string)
if (wants('growth')) await benchGrowth(url as string, wanted)
if (wants('redis')) await benchRedis(process.env['HAPAX_TEST_REDIS'] as string)
if (wants('rabbitmq')) await benchRabbitmq(url as string, process.env['HAPAX_TEST_RABBITMQ'] as string)
