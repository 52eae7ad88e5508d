import type { Command } from 'commander'
import type { SettleOptions } from '../../../admin/index.ts'
import { safe, shellWord } from '../../../base/index.ts'
import type { EffectRow } from '../../../contracts/index.ts'
import { CliError } from '../../io/errors.ts'
import { type Io, json, line } from '../../io/io.ts'
import { byOf, type ChangeOptions, type Done, examples, withChange, withStore } from '../../options.ts'
import { failedName, failedSeq, withConsumer } from '../../seq.ts'
import { command, noSuchFailed, type StoreOptions, withEither } from '../../store.ts'

/** Options of `hapax failed settle`. */
interface SettleCommand extends StoreOptions, ChangeOptions {
  readonly consumer?: string
  readonly done?: true
  readonly notDone?: true
  readonly retry?: true
  /** False: `--no-result`. */
  readonly result?: string | false
}

/** Adds `hapax failed settle`. */
export function addFailedSettle(failed: Command, io: Io, done: Done): void {
  withStore(withChange(withConsumer(failed.command('settle'))))
    .argument('<message>', 'its number in the list, or its id', failedName)
    .argument('<effect>', 'the name of the outside call')
    .description('Says what became of an outside call that nobody knew about, and tries its message again.')
    .option('--done', 'it happened: it is not made again')
    .option('--result <json>', 'with --done: what it returned; on a terminal it is asked for')
    .option('--no-result', 'with --done: it returned nothing that the handler uses')
    .option('--not-done', 'it did certainly not happen: it is made')
    .option('--retry', 'nobody knows: it is made again, with the same key')
    .addHelpText(
      'after',
      examples(
        `hapax failed settle 12 send --done --result '{"id":"SM123"}' --note 'seen in the console of the provider'`,
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
    if (!seq || (await hapax.failed.get(seq)) === undefined) throw noSuchFailed(typed, options)
    const known = await hapax.failed.effects(seq)
    if (!known.some(({ name }) => name === effect)) throw noSuchEffect(seq, effect, known, options)
    const result = as === 'done' ? await resultOf(effect, options, io) : {}
    if (!options.dryRun) await hapax.failed.settle(seq, { effect, as, ...result, by: byOf(options) })
    conclude(seq, effect, as, options, io)
    return 0
  })
}

function decision({ done, notDone, retry, result }: SettleCommand): SettleOptions['as'] {
  const given = [done && 'done', notDone && 'not-done', retry && 'retry'].filter((each) => each !== undefined)
  const [as, ...more] = given as SettleOptions['as'][]
  if (as === undefined || more.length > 0) {
    throw new CliError(
      'usage',
      `expected one of --done, --not-done and --retry, got ${given.length === 0 ? 'none' : 'several'}`,
    )
  }
  if (result !== undefined && as !== 'done') throw new CliError('usage', '--result goes with --done only')
  return as
}

/** Said, or asked for: a handler that gets no result where it needs one fails again. */
async function resultOf(effect: string, { result, dryRun }: SettleCommand, io: Io): Promise<{ result?: unknown }> {
  if (result !== undefined && result !== false) return { result: parsed(result) }
  if (result === false || dryRun) return {}
  if (io.ask === undefined) {
    throw new CliError(
      'usage',
      '--done needs --result <json>, or --no-result if the call returns nothing that the handler uses',
    )
  }
  const text = await io.ask(`What did '${safe(effect)}' return, as JSON? Empty: nothing.`)
  if (text === undefined) throw new CliError('refused', 'nothing was changed')
  return text === '' ? {} : { result: parsed(text) }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new CliError('usage', `expected the result to be JSON: ${(error as Error).message}`)
  }
}

function noSuchEffect(seq: string, effect: string, known: readonly EffectRow[], options: StoreOptions): CliError {
  const names = known.filter(({ name }) => name !== '').map(({ name }) => name)
  return new CliError('not-found', `${seq} has no outside call '${effect}'`, [
    names.length === 0 ? 'it has made none' : `it has: ${names.map(shellWord).join(', ')}`,
    `to see them: ${command(`failed show ${seq}`, options)}`,
  ])
}

const MEANINGS = {
  done: 'it is not made again',
  'not-done': 'it is made when the message is tried again',
  retry: 'it is made again with the same key when the message is tried again',
} as const

function conclude(seq: string, effect: string, as: SettleOptions['as'], options: SettleCommand, io: Io): void {
  if (options.json) {
    json(io, { seq, effect, as, dryRun: options.dryRun === true })
    return
  }
  const verb = options.dryRun ? 'would be settled' : 'is settled'
  line(io, `'${safe(effect)}' of ${seq} ${verb} as ${as}: ${MEANINGS[as]}`)
  if (!options.dryRun) line(io, 'the message is due: a running worker takes it')
}
