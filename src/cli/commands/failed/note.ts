import type { Command } from 'commander'
import { CliError } from '../../io/errors.ts'
import { type Io, json, line } from '../../io/io.ts'
import { byOf, type ChangeOptions, type Done, examples, withChange, withStore } from '../../options.ts'
import { failedName, failedSeq, withConsumer } from '../../seq.ts'
import { noSuchFailed, type StoreOptions, withHapax } from '../../store.ts'

/** Options of `hapax failed note`. */
interface NoteOptions extends StoreOptions, ChangeOptions {
  readonly consumer?: string
}

/** Adds `hapax failed note`. */
export function addFailedNote(failed: Command, io: Io, done: Done): void {
  withStore(withChange(withConsumer(failed.command('note'))))
    .argument('<message>', 'the number as listed, or the id', failedName)
    .description('Leaves a note about a failed message in the audit, for whoever looks at it next.')
    .addHelpText('after', examples(`hapax failed note 12 --note 'waits for the answer of the bank'`))
    .action(async (number, options) => done(await failedNote(number, options, io)))
}

async function failedNote(typed: string, options: NoteOptions, io: Io): Promise<number> {
  const { note } = options
  if (note === undefined) throw new CliError('usage', 'expected --note with a text')
  return withHapax(options, io, async (hapax) => {
    const seq = await failedSeq(hapax, typed, options.consumer)
    if (!seq || (await hapax.failed.get(seq)) === undefined) throw noSuchFailed(typed, options)
    if (!options.dryRun) await hapax.failed.note(seq, { ...byOf(options), note })
    if (options.json) json(io, { seq, dryRun: options.dryRun === true })
    else line(io, options.dryRun ? `would leave the note at ${seq}` : `the note is left at ${seq}: explain shows it`)
    return 0
  })
}
