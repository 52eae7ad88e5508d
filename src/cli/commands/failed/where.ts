import { type Command, Option } from 'commander'
import { safe, shellWord } from '../../../base/index.ts'
import type { FailedWhere, Origin } from '../../../contracts/index.ts'
import { durationText } from '../../io/duration.ts'
import { type ScopeOptions, scopeOf, withAges, withScope, withTimes } from '../../options.ts'

/** The filters of failed messages, as typed. */
export interface FailedFilters extends ScopeOptions {
  readonly origin?: Origin
  readonly type?: string
  readonly reason?: string
  readonly error?: string
  readonly olderThan?: number
  readonly newerThan?: number
  readonly since?: Date
  readonly until?: Date
  readonly replaced?: true
}

/** Adds the filters to a command. */
export function withFailedFilters(command: Command): Command {
  return withTimes(
    withAges(
      withScope(command, 'only those of')
        .option('--type <type>', 'only those of this type')
        .option('--reason <code>', 'only those with this failure reason')
        .option('--error <hash>', 'only those with this error; failed list --group shows the hashes')
        .addOption(
          new Option('--origin <place>', 'only those of consumers, or of relays').choices(['inbox', 'outbox']),
        ),
    ),
  ).option('--replaced', 'only those that an edit replaced; they are kept for reference')
}

/** The filters as a query; undefined if there is none. */
export function failedWhere(filters: FailedFilters): FailedWhere | undefined {
  const { type, reason, error, olderThan, newerThan, since, until, replaced } = filters
  const { origin, scope } = scopeOf(filters, filters.origin)
  const where = {
    ...(origin !== undefined && { origin }),
    ...(scope !== undefined && { consumer: scope }),
    ...(type !== undefined && { type }),
    ...(reason !== undefined && { reason }),
    ...(error !== undefined && { errorHash: error }),
    ...(olderThan !== undefined && { olderThanMs: olderThan }),
    ...(newerThan !== undefined && { newerThanMs: newerThan }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
    ...(replaced && { replaced }),
  }
  return Object.keys(where).length === 0 ? undefined : where
}

/** The filters as words of a command to paste. */
export function filterWords(filters: FailedFilters): string {
  const { origin, consumer, relay, type, reason, error, olderThan, newerThan, since, until, replaced } = filters
  const words: string[] = []
  for (const [name, value] of Object.entries({ origin, consumer, relay, type, reason, error })) {
    if (value !== undefined) words.push(`--${name} ${shellWord(safe(value))}`)
  }
  if (olderThan !== undefined) words.push(`--older-than ${durationText(olderThan)}`)
  if (newerThan !== undefined) words.push(`--newer-than ${durationText(newerThan)}`)
  for (const [name, value] of Object.entries({ since, until })) {
    if (value !== undefined) words.push(`--${name} ${value.toISOString()}`)
  }
  if (replaced) words.push('--replaced')
  return words.join(' ')
}
