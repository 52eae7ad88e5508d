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

/**
 * The seq of a failed message; undefined if none has this number or id. An id may look like the number of another message: then the
 * command refuses to guess, because it might change the wrong one.
 */
export async function failedSeq(hapax: AnyHapax, typed: string, consumer?: string): Promise<string | undefined> {
  // A whole seq means one row. If there is no such row, it may be an id.
  if (isSeq(typed) && (await hapax.failed.get(typed)) !== undefined) return typed
  const numbered = NUMBER.test(typed) ? await byNumber(hapax, typed, consumer) : undefined
  const named = await byId(hapax, typed, consumer)
  const all = numbered === undefined ? named : [numbered, ...named.filter(({ seq }) => seq !== numbered.seq)]
  if (all.length < 2) return all[0]?.seq ?? (isSeq(typed) ? typed : undefined)
  const which = all.map((each) => `${each.seq} of ${safe(each.consumer)}`)
  const what = numbered === undefined ? 'id' : 'number or the id'
  const how = numbered === undefined ? 'add --consumer, or give the number of one' : 'give one as it is listed'
  throw new CliError('usage', `several failed messages have the ${what} ${safe(typed)}: ${how}`, which)
}

interface Named {
  readonly seq: string
  readonly consumer: string
}

async function byNumber({ failed }: AnyHapax, typed: string, of: string | undefined): Promise<Named | undefined> {
  const seq = await found(typed, async (page) => [
    ...(await failed.list(page)),
    ...(await failed.list({ ...page, replaced: true })),
  ])
  const row = seq === undefined ? undefined : await failed.get(seq)
  return of === undefined || row?.consumer === of ? row : undefined
}

/** An id may have failed at several consumers. A message that an edit replaced only counts if there is no other. */
async function byId(hapax: AnyHapax, id: string, consumer: string | undefined): Promise<readonly Named[]> {
  const traces = (await hapax.explain(id)).filter((trace) => trace.where === 'failed')
  const all = traces.filter((trace) => consumer === undefined || trace.consumer === consumer)
  const open = all.filter(({ replacedBy }) => replacedBy === null)
  return open.length > 0 ? open : all
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
