import type { Command } from 'commander'
import type { FailedWhere } from '../../../contracts/index.ts'
import { isSeq } from '../../../message/index.ts'
import { refuseRetry } from '../../../worker/index.ts'
import {
  byNumber,
  changeByFilter,
  changeByNumber,
  type RowsOptions,
  type RowsWork,
  withRows,
} from '../../change-rows.ts'
import { CliError } from '../../io/errors.ts'
import type { Io } from '../../io/io.ts'
import { type CheckedOptions, checkedOf, type Done, examples, withChecked, withStore } from '../../options.ts'
import { failedNames, failedSeq } from '../../seq.ts'
import { type AnyHapax, command, type StoreOptions, withEither } from '../../store.ts'
import { type FailedFilters, failedWhere, withFailedFilters } from './where.ts'

/** Options of `hapax failed retry` and `hapax failed discard`. */
type FailedChangeOptions = StoreOptions & FailedFilters & RowsOptions & CheckedOptions

type Change = 'retry' | 'discard'

const DESCRIPTIONS = {
  retry: 'Retries failed messages at once, under their original ids.',
  discard: 'Deletes failed messages for good and releases their keys. Another delivery remains a duplicate.',
} as const

/** Adds `hapax failed retry` or `hapax failed discard`. */
export function addFailedChange(failed: Command, change: Change, io: Io, done: Done): void {
  const added = failed
    .command(change)
    .description(DESCRIPTIONS[change])
    .argument('[message...]', 'the numbers as listed, or the ids', failedNames)
  const rows = withRows(withFailedFilters(added))
  withStore(change === 'retry' ? withChecked(rows) : rows)
    .addHelpText(
      'after',
      examples(
        `hapax failed ${change} 12 13 --note 'the card was renewed'`,
        `hapax failed ${change} --consumer billing --error 3f9a2c11 --dry-run`,
        `hapax failed ${change} --type order.placed --older-than 2h --rate 20 --yes`,
      ),
    )
    .action(async (numbers, options) => done(await failedChange(change, numbers ?? [], options, io)))
}

async function failedChange(
  change: Change,
  numbers: readonly string[],
  options: FailedChangeOptions,
  io: Io,
): Promise<number> {
  const where = failedWhere(options)
  // Together with ids, --consumer is not a filter: it tells several failed messages with one id apart.
  const named =
    numbers.length > 0 &&
    !numbers.some(isSeq) &&
    where !== undefined &&
    Object.keys(where).sort().join() === 'consumer,origin'
  const numbered = byNumber(`failed ${change}`, numbers, where !== undefined && !named, options)
  if (change === 'retry' && options.replaced) {
    throw new CliError('usage', 'a message that an edit replaced cannot be retried: retry its replacement')
  }
  return withEither(options, io, (hapax) => {
    const work = workOf(hapax, change, where, options)
    return numbered ? changeByNumber(work, numbers, options, io) : changeByFilter(work, options, io)
  })
}

function workOf(
  hapax: AnyHapax,
  change: Change,
  where: FailedWhere | undefined,
  options: FailedChangeOptions,
): RowsWork {
  const { failed } = hapax
  const checked = checkedOf(options)
  const which = where ?? ({ all: true } as const)
  return {
    change,
    noun: 'failed message',
    question: (howMany) => `${change === 'retry' ? 'Retry' : 'Delete for good'} ${howMany}?`,
    ...(change === 'retry' && {
      afterwards: 'retried messages are back in their inbox or outbox: a running worker picks them up',
    }),
    named: (typed) => failedSeq(hapax, typed, where?.consumer),
    describe: async (seq) => {
      const found = await failed.get(seq)
      if (found === undefined || (change === 'retry' && found.replacedBy !== null)) return undefined
      if (change === 'retry' && options.dryRun) refuseRetry(found, options.effectsChecked === true)
      return `${found.message.type} ${found.message.id} of ${found.consumer}`
    },
    one: (seq, by) => (change === 'retry' ? failed.retry(seq, { ...by, ...checked }) : failed.discard(seq, by)),
    count: () => failed.count(where),
    all: (chosen) =>
      change === 'retry' ? failed.retryAll(which, { ...chosen, ...checked }) : failed.discardAll(which, chosen),
    ...('operations' in hapax && {
      begin: (chosen) =>
        hapax.operations.begin({
          kind: change,
          ...(where === undefined ? { all: true } : { where }),
          ...checked,
          ...chosen,
        }),
    }),
    command: (words) => command(words, options),
  }
}
