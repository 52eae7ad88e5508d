import { type Clock, systemClock } from '../../base/index.ts'
import type { ClaimStore } from '../../contracts/index.ts'
import { checkup } from './checkup.ts'
import { Claims } from './claims.ts'
import type { Way } from './client.ts'
import { Commands } from './commands.ts'
import { FailedIndex } from './failed-index.ts'
import { Journal } from './journal.ts'
import { Known } from './known.ts'
import { Names } from './names.ts'
import { trace } from './trace.ts'

/** A lease store on Redis or Valkey. */
export function redisStore(way: Way, prefix: string, timeoutMs: number, clock: Clock = systemClock): ClaimStore {
  const commands = new Commands(way, timeoutMs, clock)
  const names = new Names(prefix)
  const failed = new FailedIndex(commands, names)
  const journal = new Journal(commands, names)
  const known = new Known(commands, names)
  return {
    features: { name: 'redis' },
    claims: new Claims({ commands, names, index: failed, known, clock }),
    journal,
    failed,
    subscriptions: known,
    admin: {
      checkup: () => checkup(commands),
      status: () => known.status((where) => failed.count(where)),
      trace: (id, source) => trace({ commands, names, known, journal, index: failed }, id, source),
    },
    ready: async () => void (await commands.call('ZCARD', names.failed)),
    close: async () => commands.close(),
  }
}
