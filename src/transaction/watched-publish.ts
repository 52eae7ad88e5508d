// How an instrument watches a publish.

import { fieldOf, type Running, type SafeInstrument, type TraceContext } from '../base/index.ts'
import { type Draft, factsOfStored } from '../message/index.ts'
import { type Cause, contextOf, withCause } from './cause.ts'
import type { Prepared } from './waiting.ts'

/** A publish that an instrument watches. */
export interface WatchedPublish {
  /** The context in which it was called. */
  readonly captured: TraceContext | undefined
  /** The messages are ready to be written. */
  prepared(messages: readonly Pick<Prepared, 'message'>[]): void
}

/**
 * Publishes in the sight of the instrument. The context is captured now, synchronously: when the message is written, another request
 * may be current. Messages are addressed by their type, which is therefore the destination.
 */
export function watchedPublish<T>(
  instrument: SafeInstrument,
  type: unknown,
  publish: (watched: WatchedPublish) => Promise<T>,
): Promise<T> {
  const facts = { system: 'hapax', ...(typeof type === 'string' && { destination: type }) }
  const publishing = instrument.around('publish', facts, (running) => publish(watch(instrument, running)))
  // A promise of its own: one that nobody awaits has to end the process when it rejects, as it does without an instrument.
  return publishing.then((published) => published)
}

function watch(instrument: SafeInstrument, running: Running): WatchedPublish {
  return {
    captured: contextOf(instrument.capture()),
    prepared: (all) => running.add({ messages: factsOfStored(all.map(({ message }) => message)) }),
  }
}

/** The type of these messages, if they are all of one. */
export function typeOf(drafts: readonly Draft[]): unknown {
  if (!Array.isArray(drafts)) return undefined
  const types = new Set(drafts.map((draft) => fieldOf(fieldOf(draft, 'message'), 'type')))
  return types.size === 1 ? [...types][0] : undefined
}

/** Drafts that carry the captured context, and what their cause passes on. */
export function allInContext(
  drafts: readonly Draft[],
  captured: TraceContext | undefined,
  cause?: Cause,
): readonly Draft[] {
  const same = captured === undefined && cause === undefined
  return same || !Array.isArray(drafts) ? drafts : drafts.map((draft: Draft) => inContext(draft, captured, cause))
}

/** A draft that carries them. What is no draft stays as it is, and is refused where all are checked. */
export function inContext(draft: Draft, captured: TraceContext | undefined, cause?: Cause): Draft {
  const options = draft?.options
  const same = captured === undefined && cause === undefined
  if (same || Object.prototype.toString.call(options) !== '[object Object]') return draft
  return { ...draft, options: withCause(cause, options, captured) }
}
