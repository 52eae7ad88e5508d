// "Why is it waiting?" in one sentence. Nothing is read here: what is known is made into words, the cause that a person can do something
// about before those that pass by themselves.

import { safe } from '../base/index.ts'
import type { Ahead, Pause, WaitingMessage } from '../contracts/index.ts'

/** What is known about a message that waits, at one moment by the clock of the database. */
export interface WaitingFacts {
  readonly now: Date
  readonly row: WaitingMessage
  /** What stands in front of it, if the order of its key counts. */
  readonly ahead: Ahead | undefined
  /** Its consumer, or relay, is paused. */
  readonly pause: Pause | undefined
  /** How many live workers serve its consumer or relay and can work, and how many of them know its type. */
  readonly workers: number
  /** Why none of the live workers of its relay reaches the broker, if that is so. */
  readonly unreached: string | undefined
  readonly handlers: number
}

/** Why a message waits, in one sentence. Nothing that came with the message can turn it around. */
export function whyOf(facts: WaitingFacts): string {
  return safe(sentenceOf(facts))
}

function sentenceOf(facts: WaitingFacts): string {
  const { row, ahead } = facts
  if (row.state === 'held') return held(facts)
  if (row.state === 'leased') return leased(facts)
  if (facts.pause !== undefined) return paused(facts, facts.pause)
  if (ahead?.first.state === 'held') return behind(facts, ahead)
  if (facts.unreached !== undefined) return unreached(row.scope, facts.unreached)
  if (facts.workers === 0) return `No live worker serves ${placeOf(row)}: it waits until one is started.`
  if (facts.handlers === 0) {
    return `No live worker of ${placeOf(row)} has a handler for the type ${row.type}: it waits for one that does.`
  }
  if (ahead !== undefined) return behind(facts, ahead)
  return row.dueAt > facts.now ? later(facts) : due(facts)
}

function held({ row, now }: WaitingFacts): string {
  const since = row.heldAt === null ? '' : ` ${ago(row.heldAt, now)}`
  return `It failed for good${since}, after ${plural(row.attempts, 'attempt')}${because(row)}, and holds its key${named(row)} until it is retried, edited or discarded, or the key is released.`
}

function leased({ row, now }: WaitingFacts): string {
  return `A worker of ${placeOf(row)} has it in hand, under a lease that ends in ${span(row.dueAt, now)} unless it is renewed; then another one takes over.`
}

function paused({ row, now }: WaitingFacts, { actor, at, note }: Pause): string {
  const reason = note === null ? '' : ` (${short(note)})`
  return `${capital(placeOf(row))} was paused by ${actor} ${ago(at, now)}${reason}: it waits until ${row.origin === 'inbox' ? 'the consumer' : 'the relay'} is resumed.`
}

function unreached(relay: string, reason: string): string {
  return `No live worker of the relay ${relay} reaches its broker (${short(reason)}): it waits until one does.`
}

function behind({ row, now }: WaitingFacts, { count, first }: Ahead): string {
  const many = count >= COUNTED ? `${COUNTED.toLocaleString('en-US')} or more messages` : plural(count, 'message')
  const which = count === 1 ? `${first.id}, which` : `the first of which, ${first.id},`
  return `It is behind ${many} of its key${named(row)}: ${which} ${doing(first, now)}.`
}

/** Up to here, messages of a key are counted. */
const COUNTED = 1_000

function doing(first: WaitingMessage, now: Date): string {
  switch (first.state) {
    case 'held':
      return `failed for good${first.heldAt === null ? '' : ` ${ago(first.heldAt, now)}`}${because(first)} and holds the key until it is retried, edited or discarded, or the key is released`
    case 'leased':
      return `a worker has in hand under a lease that ends in ${span(first.dueAt, now)}`
    case 'retrying':
      return first.dueAt > now
        ? `is tried again in ${span(first.dueAt, now)}${because(first)}`
        : `is due to be tried again${because(first)}`
    case 'waiting':
      return first.dueAt > now ? `is not due for another ${span(first.dueAt, now)}` : 'is due, or is being worked on'
  }
}

/** Not due yet: after a failure, or because it was published with a delay. */
function later({ row, now }: WaitingFacts): string {
  const { attempts, error, dueAt } = row
  if (attempts > 0) return `Attempt ${attempts} failed${because(row)}; the next one is due in ${span(dueAt, now)}.`
  if (error === null) return `It is not due before ${time(dueAt)}, in ${span(dueAt, now)}.`
  const what = row.origin === 'inbox' ? 'It could not be worked on' : `The relay ${row.scope} could not send it`
  return `${what}${because(row)}; it is tried again in ${span(dueAt, now)}.`
}

function due({ row, now, workers }: WaitingFacts): string {
  const taken = row.origin === 'inbox' ? 'take it' : 'send it'
  const again = row.attempts > 0 ? ` for attempt ${row.attempts + 1}${because(row)}` : ''
  if (now.getTime() - row.dueAt.getTime() < PROMPT_MS) {
    return `It is due now${again}: a worker of ${placeOf(row)} should ${taken} within a second.`
  }
  const failing = row.attempts === 0 && row.error !== null ? `; the last try ended${because(row)}` : ''
  return `It has been due for ${span(row.dueAt, now)}${again}: ${plural(workers, 'live worker')} of ${placeOf(row)} will ${taken} after what came before it, or ${workers === 1 ? 'has' : 'have'} it in hand${failing}.`
}

/** So long it takes until a message that is due is found, with a margin. */
const PROMPT_MS = 5_000

function placeOf({ origin, scope }: WaitingMessage): string {
  return origin === 'inbox' ? `the consumer ${scope}` : `the relay ${scope}`
}

function named({ key }: WaitingMessage): string {
  return key === null ? '' : ` ${short(key)}`
}

function because({ error }: WaitingMessage): string {
  return error === null ? '' : ` (${error.name}: ${short(error.message)})`
}

const MAX_SHOWN = 200

/** On one line, and not too long: it is one sentence. */
function short(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  return line.length <= MAX_SHOWN ? line : `${line.slice(0, MAX_SHOWN - 1).toWellFormed()}…`
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

function plural(count: number, noun: string): string {
  return `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`
}

/** A time of the past by how long ago it was, and by the clock if that was not today. */
function ago(at: Date, now: Date): string {
  return now.getTime() - at.getTime() < DAY_MS ? `${span(at, now)} ago` : `at ${time(at)}`
}

const DAY_MS = 86_400_000

function time(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`
}

const UNITS = [
  [DAY_MS, 'day'],
  [3_600_000, 'hour'],
  [60_000, 'minute'],
  [1_000, 'second'],
] as const

/** How far two times are apart, in the largest unit. Rounded up: "in 0 seconds" says nothing. */
function span(a: Date, b: Date): string {
  const ms = Math.abs(a.getTime() - b.getTime())
  const [size, unit] = UNITS.find(([each]) => ms >= each) ?? [1_000, 'second']
  return plural(Math.max(1, Math.round(ms / size)), unit)
}
