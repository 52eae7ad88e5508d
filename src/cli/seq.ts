import { type Command, InvalidArgumentError } from 'commander'
import { safe } from '../base/index.ts'
import type { Hapax } from '../index.ts'
import { isSeq, numberOf, seqOf } from '../message/index.ts'
import { CliError } from './io/errors.ts'
import type { AnyHapax } from './store.ts'

// A row is named by its seq: a number and a mark. People type the number alone, so the row is looked up first and then changed by its
// whole seq. A number that is reused in the meantime therefore never selects another row than the one that was found.

const NUMBER = /^[1-9]\d{0,17}$/

/** Reads the seq of a row, or its number alone. */
function seqOrNumber(text: string): string {
  if (isSeq(text) || NUMBER.test(text)) return text
  throw new InvalidArgumentError('expected the seq of a message as it is listed, such as 12-3456, or its number')
}

/** Reads several of them. */
export function seqsOrNumbers(text: string, others: readonly string[] = []): readonly string[] {
  return [...others, seqOrNumber(text)]
}

/** Reads where a page begins. Only the number of the seq counts. */
export function pageStart(text: string): string {
  return seqOf(numberOf(seqOrNumber(text)), 0)
}

/** Reads what names a failed message: its seq, the number of the seq, or the id of the message. */
export function failedName(text: string): string {
  if (text.trim() !== '') return text
  throw new InvalidArgumentError('expected the number of a failed message, or its id')
}

/** Reads several of them. */
export function failedNames(text: string, others: readonly string[] = []): readonly string[] {
  return [...others, failedName(text)]
}

/** Adds the option that tells several failed messages with the same id apart. */
export function withConsumer(command: Command): Command {
  return command.option('--consumer <name>', 'with an id: the consumer or relay at which it failed')
}

/** The seq of a failed message; undefined if none has this number or id. */
export async function failedSeq(hapax: AnyHapax, typed: string, consumer?: string): Promise<string | undefined> {
  if (isSeq(typed)) return typed
  const { failed } = hapax
  if (!NUMBER.test(typed)) return byId(hapax, typed, consumer)
  const numbered = await found(typed, async (page) => [
    ...(await failed.list(page)),
    ...(await failed.list({ ...page, replaced: true })),
  ])
  return numbered ?? byId(hapax, typed, consumer)
}

/** An id may have failed at several consumers. A message that an edit replaced only counts if there is no other. */
async function byId(hapax: AnyHapax, id: string, consumer: string | undefined): Promise<string | undefined> {
  const traces = (await hapax.explain(id)).filter((trace) => trace.where === 'failed')
  const all = traces.filter((trace) => consumer === undefined || trace.consumer === consumer)
  const open = all.filter(({ replacedBy }) => replacedBy === null)
  const [row, ...others] = open.length > 0 ? open : all
  if (others.length === 0) return row?.seq
  const which = (row === undefined ? [] : [row, ...others]).map((each) => `${each.seq} of ${safe(each.consumer)}`)
  throw new CliError(
    'usage',
    `several failed messages have the id ${safe(id)}: add --consumer, or give the number of one`,
    which,
  )
}

/** The seq of a published message; undefined if none has this number. */
export function sentSeq({ sent }: Hapax<unknown>, typed: string): Promise<string | undefined> {
  return found(typed, (page) => sent.list(page))
}

interface Page {
  readonly before: string
  readonly limit: number
}

async function found(
  typed: string,
  list: (page: Page) => Promise<readonly { readonly seq: string }[]>,
): Promise<string | undefined> {
  if (isSeq(typed)) return typed
  // Lists begin with the highest number. After a failover, Redis may have two rows with one number.
  const rows = await list({ before: seqOf(String(BigInt(typed) + 1n), 0), limit: 2 })
  const seqs = rows.map(({ seq }) => seq).filter((seq) => numberOf(seq) === typed)
  if (seqs.length > 1) {
    throw new CliError('usage', `several messages have the number ${typed}: give the seq as it is listed`, seqs)
  }
  return seqs[0]
}
