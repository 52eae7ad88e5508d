// Decides about an external call whose outcome hapax cannot know, such as a request that timed out. Only a person who has looked at the
// provider can say whether it happened, so exactly one decision must be given.

import type { Command } from 'commander'
import type { SettleOptions } from '../../../admin/index.ts'
import { asError, exactJson, messageOf, safe, shellWord } from '../../../base/index.ts'
import { type EffectRow, SETTLED } from '../../../contracts/index.ts'
import { CliError } from '../../io/errors.ts'
import { type Io, json, line } from '../../io/io.ts'
import {
  byOf,
  type ChangeOptions,
  type CheckedOptions,
  checkedOf,
  type Done,
  examples,
  withChange,
  withChecked,
  withStore,
} from '../../options.ts'
import { failedName, failedSeq, withConsumer } from '../../seq.ts'
import { type AnyHapax, command, noSuchFailed, type StoreOptions, withEither } from '../../store.ts'

/** Options of `hapax failed settle`. */
interface SettleCommand extends StoreOptions, ChangeOptions, CheckedOptions {
  readonly consumer?: string
  readonly done?: true
  readonly notDone?: true
  readonly retry?: true
  /** False for `--no-result`. */
  readonly result?: string | false
}

/** Adds `hapax failed settle`. */
export function addFailedSettle(failed: Command, io: Io, done: Done): void {
  withStore(withChange(withChecked(withConsumer(failed.command('settle')))))
    .argument('<message>', 'the number as listed, or the id', failedName)
    .argument('<effect>', 'the name of the external call')
    .description('Records the outcome of an external call that was unknown, and retries its message.')
    .option('--done', 'the call happened: it is not repeated')
    .option('--result <json>', 'with --done: what it returned (default: asked for on a terminal)')
    .option('--no-result', 'with --done: it returned nothing the handler uses')
    .option('--not-done', 'the call certainly did not happen: it is made')
    .option('--retry', 'the outcome stays unknown: the call is repeated with the same key')
    .addHelpText(
      'after',
      examples(
        `hapax failed settle 12 send --done --result '{"id":"SM123"}' --note 'seen in the provider console'`,
        'hapax failed settle 12 send --not-done',
        'hapax failed settle 12 send --retry --dry-run',
      ),
    )
    .action(async (number, effect, options) => done(await settle(number, effect, options, io)))
}

async function settle(typed: string, effect: string, options: SettleCommand, io: Io): Promise<number> {
  const as = decision(options)
  return withEither(options, io, async (hapax) => {
    const seq = await failedSeq(hapax, typed, options.consumer)
    if (!seq || (await hapax.failed.get(seq)) === undefined) return correct(hapax, typed, effect, as, options, io)
    const known = await hapax.failed.effects(seq)
    if (!known.some(({ name }) => name === effect))
      throw noSuchEffect(seq, effect, known, `failed show ${seq}`, options)
    const result = as === 'done' ? await resultOf(effect, options, io) : {}
    if (!options.dryRun)
      await hapax.failed.settle(seq, { effect, as, ...result, by: byOf(options), ...checkedOf(options) })
    conclude(seq, effect, as, options, io)
    return 0
  })
}

/** The message is not failed any more: an earlier settlement had it retried, and may have been wrong. */
async function correct(
  hapax: AnyHapax,
  id: string,
  effect: string,
  as: SettleOptions['as'],
  options: SettleCommand,
  io: Io,
): Promise<number> {
  const traces = await hapax.explain(id)
  const retried = traces.flatMap((trace) =>
    trace.where === 'inbox' && trace.consumer === (options.consumer ?? trace.consumer) ? [trace] : [],
  )
  const [trace, ...more] = retried
  if (trace === undefined || !('operations' in hapax)) {
    const { code, message, hints } = noSuchFailed(id, options)
    throw new CliError(code, message, [...hints, 'a message that is being retried is named by its id'])
  }
  if (more.length > 0) throw new CliError('usage', `several consumers retry ${safe(id)}: add --consumer`)
  const { consumer, source } = trace
  const known = traces.flatMap((each) =>
    each.where === 'effect' && each.consumer === consumer && each.source === source ? [each.effect] : [],
  )
  assertSettled(id, effect, known, options)
  const result = as === 'done' ? await resultOf(effect, options, io) : {}
  if (!options.dryRun)
    await hapax.failed.correct({ consumer, source, id }, { effect, as, ...result, by: byOf(options) })
  conclude(id, effect, as, options, io)
  return 0
}

/** Refuses what `failed.correct` would refuse, so that a dry run does not report success. */
function assertSettled(id: string, effect: string, known: readonly EffectRow[], options: StoreOptions): void {
  const row = known.find(({ name }) => name === effect)
  if (row === undefined) throw noSuchEffect(id, effect, known, `explain ${shellWord(id)}`, options)
  if (row.error?.name === SETTLED && row.state !== 'started') return
  throw new CliError('conflict', `${safe(id)} is not a failed message, and '${safe(effect)}' was not settled before`, [
    'an external call can be settled once its message has failed',
  ])
}

function decision({ done, notDone, retry, result }: SettleCommand): SettleOptions['as'] {
  const given: readonly SettleOptions['as'][] = [
    ...(done ? ['done' as const] : []),
    ...(notDone ? ['not-done' as const] : []),
    ...(retry ? ['retry' as const] : []),
  ]
  const [as, ...more] = given
  if (as === undefined || more.length > 0) {
    throw new CliError(
      'usage',
      `expected exactly one of --done, --not-done and --retry, got ${given.length === 0 ? 'none' : 'several'}`,
    )
  }
  if (result !== undefined && as !== 'done') throw new CliError('usage', '--result requires --done')
  return as
}

/** The result as given, or asked for. It is never left out silently: a handler that needs it would fail again. */
async function resultOf(effect: string, { result, dryRun }: SettleCommand, io: Io): Promise<{ result?: unknown }> {
  if (result !== undefined && result !== false) return { result: parsed(result) }
  if (result === false || dryRun) return {}
  if (io.ask === undefined) {
    throw new CliError(
      'usage',
      '--done needs --result <json>, or --no-result if the call returns nothing the handler uses',
    )
  }
  const text = await io.ask(`What did '${safe(effect)}' return, as JSON? (Empty for nothing.)`)
  if (text === undefined) throw new CliError('refused', 'nothing was changed')
  return text === '' ? {} : { result: parsed(text) }
}

function parsed(text: string): unknown {
  try {
    const result = exactJson(text)
    if (result !== undefined) return result.value
  } catch (error) {
    throw new CliError('usage', `expected the result to be exact: ${messageOf(asError(error))}`)
  }
  throw new CliError('usage', `expected the result to be JSON, got ${safe(text.slice(0, 100))}`)
}

function noSuchEffect(
  message: string,
  effect: string,
  known: readonly EffectRow[],
  shows: string,
  options: StoreOptions,
): CliError {
  const names = known.filter(({ name }) => name !== '').map(({ name }) => name)
  return new CliError('not-found', `${safe(message)} has no external call '${safe(effect)}'`, [
    names.length === 0 ? 'it made none' : `it made: ${names.map(shellWord).join(', ')}`,
    `to show them: ${command(shows, options)}`,
  ])
}

const MEANINGS = {
  done: 'it is not repeated',
  'not-done': 'it is made when the message is retried',
  retry: 'it is repeated with the same key when the message is retried',
} as const

function conclude(seq: string, effect: string, as: SettleOptions['as'], options: SettleCommand, io: Io): void {
  if (options.json) {
    json(io, { seq, effect, as, dryRun: options.dryRun === true })
    return
  }
  const verb = options.dryRun ? 'would be settled' : 'is settled'
  line(io, `'${safe(effect)}' of ${seq} ${verb} as ${as}: ${MEANINGS[as]}`)
  if (!options.dryRun) line(io, 'the message is due: a running worker picks it up')
}
