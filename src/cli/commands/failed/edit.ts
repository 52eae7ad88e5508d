// Replaces the data of a failed message. The new message gets a new id, because the old id may have been processed elsewhere under the
// old data. The changes are shown before they are made, and what was given is stored as it is: no digit of a number changes.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { asError, messageOf, safe, shellWord } from '../../../base/index.ts'
import type { FailedMessage } from '../../../contracts/index.ts'
import { stubOf } from '../../../message/index.ts'
import { refuseUnchecked } from '../../../worker/index.ts'
import { CliError } from '../../io/errors.ts'
import { type Io, json, line, paint } from '../../io/io.ts'
import { changes, type JsonChange } from '../../io/json-changes.ts'
import { exactJson, kindOf, payloadOf } from '../../io/payload.ts'
import { permission } from '../../io/permission.ts'
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
import { command, noSuchFailed, type StoreOptions, withHapax } from '../../store.ts'

/** Options of `hapax failed edit`. */
interface EditOptions extends StoreOptions, ChangeOptions, CheckedOptions {
  readonly consumer?: string
  readonly data?: string
  readonly file?: string
  readonly type?: string
  readonly yes?: true
}

/** Adds `hapax failed edit`. */
export function addFailedEdit(failed: Command, io: Io, done: Done): void {
  withStore(withChange(withChecked(withConsumer(failed.command('edit')))))
    .argument('<message>', 'the number as listed, or the id', failedName)
    .description('Replaces a failed message with one that has new data, or another type, and a new id.')
    .option('--data <data>', 'the new data: JSON, or a text if the message has one')
    .option('--file <path>', 'a file with the new data; - reads standard input')
    .option('--type <type>', 'the new type; without --data and --file the data stays as it is')
    .option('--yes', 'do not ask for confirmation after the editor')
    .addHelpText(
      'after',
      `\nWithout --data, --file and --type, $EDITOR opens the data; this needs a terminal.\n${examples(
        'hapax failed edit 12',
        `hapax failed edit 12 --data '{"orderId":17,"cents":4200}' --dry-run`,
        `hapax failed edit 12 --file order.json --note 'typo in the amount'`,
        'hapax failed edit 12 --type order.placed',
      )}`,
    )
    .action(async (number, options) => done(await failedEdit(number, options, io)))
}

async function failedEdit(typed: string, options: EditOptions, io: Io): Promise<number> {
  const given = givenText(options, io)
  return withHapax(options, io, async (hapax) => {
    const seq = await failedSeq(hapax, typed, options.consumer)
    const found = seq && (await hapax.failed.get(seq))
    if (!seq || !found) throw noSuchFailed(typed, options)
    if (found.replacedBy !== null) {
      throw new CliError('not-found', `${seq} was already replaced by ${found.replacedBy}`)
    }
    // Fail before an editor opens in vain.
    if (!options.effectsChecked) refuseUnchecked(found)
    const data = given ?? (options.type === undefined ? await fromEditor(found, io) : unchanged(found))
    const now = readable(data, kindOf(found.message))
    const payload = payloadOf(found.message)
    const old = 'data' in payload ? payload.data : undefined
    const different = changes(old, now)
    const { type = found.message.type } = options
    const retyped = type !== found.message.type
    if ('data' in payload && different.length === 0 && !retyped) {
      const what = options.type === undefined ? 'the data is' : 'the type and the data are'
      throw new CliError('refused', `${what} the same: nothing was changed`)
    }
    const typeChange = { mark: '~', text: `type: ${found.message.type} -> ${type}` } as const
    if (!options.json) tellChanges([...(retyped ? [typeChange] : []), ...different], io)
    if (options.dryRun) return conclude(seq, undefined, options, io)
    if (given === undefined && options.type === undefined)
      await permission(io, options.yes === true, 'an edit', 'Replace the message?')
    const { id } = await hapax.failed.edit(seq, data, {
      by: byOf(options),
      exact: true,
      ...(options.type !== undefined && { type }),
      ...checkedOf(options),
    })
    return conclude(seq, id, options, io)
  })
}

/** The new data from the command line; undefined if it comes from the editor, or stays as it is. */
function givenText({ data, file, type }: EditOptions, io: Io): string | Buffer | undefined {
  if (data !== undefined && file !== undefined) throw new CliError('usage', 'expected --data or --file, got both')
  if (data !== undefined) return data
  if (file === undefined) {
    if (type !== undefined) return undefined
    // Refused before the database is opened.
    editorOf(io)
    return undefined
  }
  try {
    return readFileSync(file === '-' ? 0 : resolve(io.cwd, file))
  } catch (error) {
    throw new CliError('usage', `${file} could not be read: ${messageOf(asError(error))}`)
  }
}

function editorOf({ edit }: Io): NonNullable<Io['edit']> {
  if (edit === undefined)
    throw new CliError('usage', 'expected --data or --file, because there is no terminal for an editor')
  return edit
}

/** The data of the message as it is. */
function unchanged(failed: FailedMessage): Buffer {
  refuseIncomplete(failed)
  return Buffer.from(failed.message.data)
}

function refuseIncomplete({ seq, message }: FailedMessage): void {
  if (stubOf(message) === undefined) return
  throw new CliError('usage', `the payload of ${seq} is incomplete: give the new data with --data or --file`)
}

async function fromEditor(failed: FailedMessage, io: Io): Promise<string> {
  refuseIncomplete(failed)
  const { seq, message } = failed
  const kind = kindOf(message)
  if (kind === 'bytes') throw new CliError('usage', `the payload of ${seq} is bytes: give the new ones with --file`)
  const payload = payloadOf(message)
  const text = Buffer.from(message.data).toString('utf8')
  if (kind === 'text') return withoutAddedEnd(await editorOf(io)(text), text)
  const written = await editorOf(io)(`${'data' in payload ? JSON.stringify(payload.data, null, 2) : text}\n`)
  // The spaces are the editor's, not the message's.
  return JSON.stringify(parsed(written))
}

/** Many editors end a file with a newline, which a text need not have. */
function withoutAddedEnd(text: string, old: string): string {
  return old.endsWith('\n') ? text : text.replace(/\r?\n$/, '')
}

/** What was given, as people read it: JSON as a value whose numbers keep their digits, bytes by their number. */
function readable(given: string | Buffer, kind: ReturnType<typeof kindOf>): unknown {
  if (kind === 'bytes') return `${Buffer.byteLength(given)} bytes`
  const text = given.toString()
  return kind === 'text' ? text : parsed(text)
}

function parsed(text: string): unknown {
  try {
    return exactJson(text)
  } catch (error) {
    throw new CliError('usage', `expected the new data to be JSON: ${messageOf(asError(error))}`)
  }
}

const STYLES = { '+': 'green', '-': 'red', '~': 'yellow' } as const

function tellChanges(list: readonly JsonChange[], io: Io): void {
  for (const { mark, text } of list) line(io, `${paint(io, STYLES[mark], mark)} ${safe(text)}`)
  line(io)
}

function conclude(seq: string, id: string | undefined, options: EditOptions, io: Io): number {
  if (options.json) json(io, { seq, dryRun: options.dryRun === true, id: id ?? null })
  else if (id === undefined) line(io, `would replace ${seq} with a message that has this data and a new id`)
  else {
    line(io, `${seq} is replaced by ${paint(io, 'bold', safe(id))}, which is due: a running worker picks it up`)
    line(io, `to follow it: ${command(`explain ${shellWord(safe(id))}`, options)}`)
  }
  return 0
}
