import { HapaxError, isRefusal, messageOf } from '../base/index.ts'
import type { StoredMessage } from '../message/index.ts'
import { asciiJson, inAscii, shortened } from '../message/index.ts'
import type { Verdict } from './verdict.ts'

/** A message, and the decision about its failed attempt. */
export interface Kept {
  readonly message: StoredMessage
  readonly verdict: Verdict
}

/** Keeps a message whole, or, if the store refuses it, what can be kept of it. */
export async function asFarAsStorable<T>(whole: Kept, keep: (kept: Kept) => Promise<T>): Promise<T> {
  try {
    return await keep(whole)
  } catch (error) {
    if (!isRefusal(error)) throw error
    return keepStub(whole, error, keep)
  }
}

/** Writes a JSON text. If the encoding of the database lacks some of its characters, they are written as escapes. */
export async function jsonInAnyEncoding<T>(
  json: string | null,
  write: (json: string | null) => Promise<T>,
): Promise<T> {
  try {
    return await write(json)
  } catch (error) {
    if (!isRefusal(error) || json === null) throw error
    return write(asciiJson(json))
  }
}

/**
 * Keeps what can be kept of a message that the store refused, so that it is not lost silently. First in the failed store with a shortened
 * payload; if that is refused too, with its texts in ASCII, for a database whose encoding lacks their characters.
 */
export async function keepStub<T>(
  { message, verdict }: Kept,
  refused: HapaxError,
  keep: (kept: Kept) => Promise<T>,
): Promise<T> {
  const failed = givenUp(verdict, refused)
  const why = messageOf(refused)
  try {
    return await keep({ message: shortened(message, why), verdict: failed })
  } catch (error) {
    if (!isRefusal(error)) throw error
    return keep({ message: inAscii(message, why), verdict: failed })
  }
}

/** A message that cannot be stored cannot wait for another attempt, so that a retry becomes a failure. */
function givenUp(verdict: Verdict, refused: HapaxError): Verdict {
  if (verdict.kind === 'fail') return verdict
  const what = `${messageOf(refused)}; the attempt before that failed: ${messageOf(verdict.error)}`
  return { kind: 'fail', reason: 'unstorable', error: new HapaxError('unstorable', what, { cause: verdict.error }) }
}
