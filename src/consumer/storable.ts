import { HapaxError, isRefusal, messageOf } from '../base/index.ts'
import type { StoredMessage } from '../message/index.ts'
import { asciiJson, inAscii, shortened } from '../message/index.ts'
import type { Verdict } from './verdict.ts'

/** A message, and what follows from what happened to it. */
export interface Kept {
  readonly message: StoredMessage
  readonly verdict: Verdict
}

/** Keeps a message as far as the store takes it. */
export async function asFarAsStorable<T>(whole: Kept, keep: (kept: Kept) => Promise<T>): Promise<T> {
  try {
    return await keep(whole)
  } catch (error) {
    if (!isRefusal(error)) throw error
    return keepStub(whole, error, keep)
  }
}

/** Writes a JSON text, in ASCII if the database has not all of its characters. */
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
 * Keeps what can be kept of a message that the store refused: in the failed store, without the end of a long payload; if that is
 * refused too, also with its texts in ASCII, for a database whose encoding lacks their characters.
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

/** There is no place in which it could wait for another attempt. */
function givenUp(verdict: Verdict, refused: HapaxError): Verdict {
  if (verdict.kind === 'fail') return verdict
  const what = `${messageOf(refused)}; the attempt before that failed: ${messageOf(verdict.error)}`
  return { kind: 'fail', reason: 'unstorable', error: new HapaxError('unstorable', what, { cause: verdict.error }) }
}
