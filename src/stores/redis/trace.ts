import type { FailedMessage, Trace } from '../../contracts/index.ts'
import { inTimeOrder, messageKey, storedTrace } from '../../message/index.ts'
import { readClaim } from './claim.ts'
import { type Commands, wordOf } from './commands.ts'
import type { FailedIndex } from './failed-index.ts'
import type { Journal } from './journal.ts'
import type { Known } from './known.ts'
import { readPast, unpackReceipt } from './message.ts'
import type { Names } from './names.ts'
import { HISTORY_FIELDS } from './remembering.ts'
import * as scripts from './scripts.ts'

/** What a search needs. */
interface Parts {
  readonly commands: Commands
  readonly names: Names
  readonly known: Known
  readonly journal: Journal
  readonly index: FailedIndex
}

/**
 * Every place where a message with this id is known. A claim is found by its consumer and its source: without a source, those
 * that were remembered are tried. Requests are found by their ids as well.
 */
export async function trace(parts: Parts, id: string, source?: string): Promise<readonly Trace[]> {
  const { known, names, index } = parts
  const sources = source === undefined ? await known.sources() : [source]
  const consumers = await known.consumers()
  const bySource = consumers.flatMap((consumer) => sources.map((each) => ({ consumer, key: messageKey(each, id) })))
  const byId = source === undefined ? await known.withId(id) : []
  const places = new Map([...bySource, ...byId].map((each) => [names.claim(each.consumer, each.key), each]))
  const traces = await Promise.all(
    [...places].map(([name, { consumer, key }]) => claimTraces(parts, consumer, key, name)),
  )
  const all = traces.flat()
  const listed = new Set(all.map((each) => (each.where === 'failed' ? each.seq : '')))
  const kept = (await index.withId(id)).filter((row) => !listed.has(row.seq))
  const others = kept.filter(({ message }) => source === undefined || message.source === source)
  return inTimeOrder([...all, ...others.map(failedTrace)])
}

async function claimTraces(
  { commands, names, journal, index }: Parts,
  consumer: string,
  key: string,
  name: string,
): Promise<readonly Trace[]> {
  const { state, held, dueAt, attempts, takenAt, receipt, more } = await readClaim(commands, names.key(name), [
    'er',
    'q',
    ...HISTORY_FIELDS,
  ])
  if (state === '') return []
  const { source, type } = unpackReceipt(receipt)
  const about = { consumer, source, type, at: takenAt }
  const [error, seq, past] = [more.optional(), more.text(), readPast(more)]
  const traces: Trace[] = [{ where: 'receipt', ...about }]
  if (state === 'o') {
    const last = error === null ? null : JSON.parse(error)
    traces.push({ where: 'claim', ...about, attempts, held, dueAt, stored: seq !== '', error: last, ...past })
  }
  for (const effect of await journal.of(consumer, key)) {
    traces.push({ where: 'effect', ...about, at: effect.firstAt, effect })
  }
  traces.push(...(await deeds(commands, names.key(name), about)))
  const failed = state === 'f' ? await index.get(seq) : undefined
  return failed === undefined ? traces : [...traces, failedTrace(failed)]
}

async function deeds(
  commands: Commands,
  key: string,
  about: { readonly consumer: string; readonly source: string; readonly type: string },
): Promise<readonly Trace[]> {
  const found = await commands.run(scripts.DEEDS, key, [])
  return found.map((each) => {
    const text = wordOf(each)
    const gap = text.indexOf(' ')
    const { action, actor, note = null } = JSON.parse(text.slice(gap + 1))
    return { where: 'audit' as const, ...about, at: new Date(Number(text.slice(0, gap))), action, actor, note }
  })
}

function failedTrace({ consumer, message, failedAt: at, ...row }: FailedMessage): Trace {
  const { seq, origin, attempts, reason, held, replacedBy, error, failures, history } = row
  const { source, type } = message
  const traceparent = storedTrace(message.attributes)?.traceparent ?? null
  const place = { origin, consumer, source, type, at, traceparent, seq, attempts, reason, held, replacedBy, error }
  return { where: 'failed', ...place, failures, history }
}
