// Transactions of hapax's own, without handlers.

import type { Opening, Unit, UnitEnd, UnitOptions } from '../contracts/index.ts'
import { COMMIT_MS, type Engine, GRACE_MS } from './attempt.ts'
import { Deadline } from './deadline.ts'

/**
 * A transaction begins to wait for a connection; returns what to call when it has one. Where there is one writer there is no pool:
 * its turn is waited for, and that ends by itself.
 */
export function acquiring<Tx>(
  { store, acquisitions }: Pick<Engine<Tx>, 'store' | 'acquisitions'>,
  deadline: Deadline,
  since?: number,
): () => void {
  const { parallelWriters } = store.features
  if (parallelWriters) deadline.acquiring(acquisitions)
  return () => {
    acquisitions.got()
    deadline.opening(parallelWriters ? undefined : since)
  }
}

/** A transaction without handlers: the database has to answer in time, and the body has `timeoutMs`, if that is given. */
export async function unit<Tx, T>(
  engine: Pick<Engine<Tx>, 'store' | 'clock' | 'acquisitions'>,
  { timeoutMs, ...options }: Omit<UnitOptions, 'signal' | 'acquired'> & { readonly timeoutMs?: number },
  opening: Opening,
  body: (unit: Unit<Tx>) => Promise<UnitEnd<T>>,
): Promise<T> {
  // Where there are several writers, nothing but an answer is waited for.
  const isTurn = opening.kind !== 'plain' || !engine.store.features.parallelWriters
  const openingMs = (isTurn ? options.lockTimeoutMs : 0) + GRACE_MS
  const deadline = new Deadline(engine.clock, { openingMs, handlerMs: timeoutMs ?? openingMs, commitMs: COMMIT_MS })
  const acquired = acquiring(engine, deadline)
  try {
    return await engine.store.transactions.run({ ...options, signal: deadline, acquired }, opening, async (opened) => {
      if (timeoutMs === undefined) deadline.pause()
      else deadline.handler()
      const end = await body(opened)
      deadline.commit()
      return end
    })
  } finally {
    deadline.done()
  }
}

/** What the store does as one transaction of its own, in time. Once it has a connection, a timeout leaves the outcome unknown. */
export async function atOnce<Tx, T>(
  engine: Pick<Engine<Tx>, 'store' | 'clock' | 'acquisitions'>,
  options: Omit<UnitOptions, 'signal' | 'acquired'>,
  run: (options: UnitOptions) => Promise<T>,
): Promise<T> {
  const openingMs = options.lockTimeoutMs + COMMIT_MS
  const deadline = new Deadline(engine.clock, { openingMs, handlerMs: openingMs, commitMs: COMMIT_MS })
  const acquired = acquiring(engine, deadline)
  try {
    return await run({ ...options, signal: deadline.signal, acquired })
  } finally {
    deadline.done()
  }
}
