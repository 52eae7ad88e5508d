import { InvalidArgumentError } from 'commander'
import type { Hapax } from '../index.ts'
import { isSeq, numberOf, seqOf } from '../message/index.ts'
import { CliError } from './io/errors.ts'
import type { AnyHapax } from './store.ts'

// A row is named by its number and a mark. People type the number: then the row is looked up, and it is by its whole name that
// something is done to it. So a number that is given out again meanwhile never means another row than the one that was found.

const NUMBER = /^[1-9]\d{0,17}$/

/** Reads the name of a row, or its number alone. */
export function seqOrNumber(text: string): string {
  if (isSeq(text) || NUMBER.test(text)) return text
  throw new InvalidArgumentError('expected the seq of a message as it is listed, such as 12-3456, or its number')
}

/** Reads several of them. */
export function seqsOrNumbers(text: string, others: readonly string[] = []): readonly string[] {
  return [...others, seqOrNumber(text)]
}

/** Reads where a page begins; of its name only the number counts. */
export function pageStart(text: string): string {
  return seqOf(numberOf(seqOrNumber(text)), 0)
}

/** The name of a failed message; undefined: none has this number. */
export function failedSeq({ failed }: AnyHapax, typed: string): Promise<string | undefined> {
  return found(typed, async (page) => [
    ...(await failed.list(page)),
    ...(await failed.list({ ...page, replaced: true })),
  ])
}

/** The name of a published message; undefined: none has this number. */
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
  // Lists begin with the highest number. After a fail-over, Redis may have two rows of one.
  const rows = await list({ before: seqOf(String(BigInt(typed) + 1n), 0), limit: 2 })
  const seqs = rows.map(({ seq }) => seq).filter((seq) => numberOf(seq) === typed)
  if (seqs.length > 1) {
    throw new CliError('usage', `several messages have the number ${typed}: give one as it is listed`, seqs)
  }
  return seqs[0]
}
