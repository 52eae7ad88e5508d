import { describe, expect, test } from 'vitest'
import { check, type Evidence, type Violation } from './checker.ts'
import type { Change, Commit, Effect, FailedRecord, JournalRow, WaitingRow } from './database.ts'
import { runSeed } from './runner.ts'

/** Histories whose evidence has everything that is broken below. */
const SEEDS = Array.from({ length: 400 }, (_, index) => index + 1)

type Break = (evidence: Evidence) => Evidence | undefined

/** Breaks real evidence by hand, and says which invariants are then reported. */
async function invariantsAfter(breaking: Break): Promise<readonly Violation['invariant'][]> {
  for (const seed of SEEDS) {
    const { evidence, violations } = await runSeed(seed)
    const plain = evidence.offered.every(({ breaks }) => !breaks)
    const broken = violations.length === 0 && plain ? breaking(evidence) : undefined
    if (broken !== undefined) return check(broken).map(({ invariant }) => invariant)
  }
  throw new Error('expected a history that can be broken this way, got none')
}

const isNew = (table: Change['table']) => (change: Change) =>
  change.table === table && change.after !== undefined && change.before === undefined
const isGone = (table: Change['table']) => (change: Change) => change.table === table && change.after === undefined

/** The first commit that has such a change, with other changes. */
function changed(
  evidence: Evidence,
  matches: (change: Change, commit: Commit) => boolean,
  change: (changes: readonly Change[], found: Change) => readonly Change[],
): Evidence | undefined {
  const place = evidence.commits.findIndex((commit) => commit.changes.some((each) => matches(each, commit)))
  const commit = evidence.commits[place]
  if (commit === undefined) return undefined
  const found = commit.changes.find((each) => matches(each, commit)) as Change
  const commits = evidence.commits.with(place, { ...commit, changes: change(commit.changes, found) })
  return { ...evidence, commits }
}

const without = (changes: readonly Change[], found: Change): readonly Change[] =>
  changes.filter((each) => each !== found)
const twice = (changes: readonly Change[], found: Change): readonly Change[] => [...changes, { ...found, key: 'again' }]

describe('the checker refuses hand-broken histories', () => {
  const broken: readonly [string, Violation['invariant'], Break][] = [
    ['an effect that is there twice', 'I2', (e) => changed(e, isNew('effects'), twice)],
    ['a receipt that is missing', 'I4', (e) => changed(e, hasWith('receipts', 'effects'), without)],
    ['an effect that is missing', 'I1', (e) => changed(e, isNew('effects'), without)],
    ['a published message that is missing', 'I4', (e) => changed(e, hasWith('outbox', 'effects'), without)],
    ['an inbox row that was not written', 'I1', (e) => changed(e, hasWith('inbox', 'receipts'), without)],
    ['a failed row that was not written', 'I1', (e) => changed(e, isFailedMessage, without)],
    ['a final failure without what its hook publishes', 'I4', (e) => changed(e, hasWith('outbox', 'failed'), without)],
    ['what a hook publishes without the failure', 'I4', (e) => changed(e, hasWith('failed', 'outbox'), without)],
    ['a key that is held and nobody sees it', 'I1', (e) => changed(e, holdsForGood(e), without)],
    ['an ack without a commit', 'I5', (e) => (e.acks.length === 0 ? undefined : { ...e, commits: [] })],
    ['an ack that came before', 'I5', (e) => (e.acks.length === 0 ? undefined : { ...e, acks: early(e.acks) })],
    ['an arrival that is missing', 'I7', (e) => withoutArrival(e)],
    ['an arrival of what was not committed', 'I4', (e) => phantom(e)],
    ['arrivals of a key in another order', 'I6', (e) => swappedArrivals(e)],
    ['effects of a key in another order', 'I6', (e) => swappedEffects(e)],
    ['a receipt deleted under a waiting row', 'I1', (e) => receiptDeleted(e)],
    ['a lease that another process ends', 'I3', (e) => byAnother(e, (each) => isLeaseEnd(each))],
    ['a journal that another process writes', 'I3', (e) => byAnother(e, ({ table }) => table === 'journal')],
    ['a call that was not written down', 'I3', (e) => changed(e, isBegun, without)],
    ['a call that happened, as not done', 'I3', (e) => changed(e, isDoneCall(e), asNotDone)],
    ['something that was sent twice in silence', 'I3', (e) => sentTwice(e)],
    ['a history that never came to rest', 'I8', (e) => ({ ...e, unsettled: 'not settled' })],
    ['a message that is nowhere', 'I1', (e) => ({ ...e, offered: [...e.offered, nobody] })],
    ['a message that should have failed', 'I1', (e) => expecting(e, 'failed')],
    [
      'a row that left the outbox too early',
      'I7',
      (e) => (e.arrivals.length === 0 ? undefined : { ...e, arrivals: [] }),
    ],
    ['a row that left the inbox for nowhere', 'I1', (e) => vanished(e)],
    ['a processed message that is shown as failed', 'I1', (e) => shownAsFailed(e, 'broken-atomicity', false)],
    ['the same for another reason, where nobody could tell', 'I1', (e) => shownAsFailed(e, 'crash-loop', true)],
  ]
  test.for(broken)('%s: %s', async ([, invariant, breaking]) => {
    expect(await invariantsAfter(breaking)).toContain(invariant)
  })
})

test('the checker accepts a processed message that is shown as failed where nobody could tell', async () => {
  expect(await invariantsAfter((e) => shownAsFailed(e, 'broken-atomicity', true))).toEqual([])
})

test('the checker accepts what the engine did', async () => {
  for (const seed of SEEDS.slice(0, 100)) expect((await runSeed(seed)).violations).toEqual([])
})

const nobody = {
  consumer: 'billing',
  source: '/shop',
  id: 'x',
  expected: 'either',
  breaks: false,
  mayVanish: false,
} as const

/** Undefined for histories without leases. */
function byAnother(evidence: Evidence, matches: (change: Change) => boolean): Evidence | undefined {
  const place = evidence.commits.findIndex(({ changes }) => changes.some(matches))
  const commit = evidence.commits[place]
  if (commit === undefined || evidence.outside === undefined) return undefined
  return { ...evidence, commits: evidence.commits.with(place, { ...commit, process: 'somebody else' }) }
}

const isLeaseEnd = ({ table, before, after }: Change): boolean =>
  table === 'inbox' && after === undefined && (before as WaitingRow).leaseToken !== null

const isBegun = ({ table, after }: Change): boolean =>
  table === 'journal' && (after as JournalRow | undefined)?.state === 'started'

const isDoneCall =
  ({ outside }: Evidence) =>
  ({ table, after }: Change): boolean =>
    table === 'journal' && outside?.plan.onUnknown === 'hold' && (after as JournalRow | undefined)?.state === 'done'

const asNotDone = (changes: readonly Change[], found: Change): readonly Change[] =>
  changes.map((each) => (each === found ? { ...each, after: { ...found.after, state: 'not-done' } } : each))

function sentTwice(evidence: Evidence): Evidence | undefined {
  const { outside, commits } = evidence
  const [first] = outside?.sent ?? []
  const listed = commits.some(({ changes }) =>
    changes.some(({ table, after }) => table === 'journal' && (after as JournalRow).state === 'unknown'),
  )
  if (outside === undefined || first === undefined || listed) return undefined
  return { ...evidence, outside: { ...outside, sent: [...outside.sent, first] } }
}

const isFailedMessage = (change: Change): boolean =>
  isNew('failed')(change) && (change.after as FailedRecord).origin === 'inbox'

/** A row that holds its key to the end: what is released later breaks nothing. */
const holdsForGood =
  ({ commits }: Evidence) =>
  (change: Change, { changes }: Commit): boolean =>
    isNew('failed')(change) &&
    !changes.some(isGone('inbox')) &&
    (change.after as FailedRecord).heldSeq !== null &&
    !commits.some((later) =>
      later.changes.some(({ table, key, before }) => table === 'failed' && key === change.key && before),
    )

function hasWith(table: Change['table'], other: Change['table']): (change: Change, commit: Commit) => boolean {
  return (change, commit) => isNew(table)(change) && commit.changes.some(isNew(other))
}

function early<T extends { at: number }>(events: readonly T[]): readonly T[] {
  return events.map((event) => ({ ...event, at: 0 }))
}

function withoutArrival(evidence: Evidence): Evidence | undefined {
  const [first] = evidence.arrivals
  if (first === undefined) return undefined
  return { ...evidence, arrivals: evidence.arrivals.filter(({ id }) => id !== first.id) }
}

function phantom(evidence: Evidence): Evidence | undefined {
  const [first] = evidence.arrivals
  return first && { ...evidence, arrivals: [...evidence.arrivals, { ...first, id: 'phantom' }] }
}

/** The first arrivals of two messages of a key, exchanged, if one was written after the other's commit. */
function swappedArrivals(evidence: Evidence): Evidence | undefined {
  const { arrivals } = evidence
  for (const [index, one] of arrivals.entries()) {
    const later = arrivals.findIndex(
      (each, at) => at > index && each.key !== null && each.key === one.key && each.id !== one.id,
    )
    const two = arrivals[later]
    if (two === undefined || arrivals.some((each, at) => at < index && each.id === two.id)) continue
    const swapped = arrivals.with(index, { ...two, at: one.at }).with(later, { ...one, at: two.at })
    const broken = { ...evidence, arrivals: swapped }
    if (check(broken).some(({ invariant }) => invariant === 'I6')) return broken
  }
  return undefined
}

/** The effects of two inbox rows of a key, exchanged together with their rows. */
function swappedEffects(evidence: Evidence): Evidence | undefined {
  const { commits } = evidence
  const working = commits.map((commit, index) => ({ commit, index })).filter(({ commit }) => isOrderedWork(commit))
  for (const one of working) {
    for (const two of working.filter(({ index }) => index > one.index)) {
      const swapped = commits
        .with(one.index, { ...two.commit, at: one.commit.at })
        .with(two.index, { ...one.commit, at: two.commit.at })
      const broken = { ...evidence, commits: swapped }
      if (check(broken).some(({ invariant }) => invariant === 'I6')) return broken
    }
  }
  return undefined
}

function isOrderedWork({ changes }: Commit): boolean {
  const ordered = changes.some((change) => isGone('inbox')(change) && (change.before as { ordered?: boolean }).ordered)
  return ordered && changes.some(isNew('effects'))
}

function receiptDeleted(evidence: Evidence): Evidence | undefined {
  return changed(evidence, hasWith('inbox', 'receipts'), (changes) => changes) && deleteFirstReceipt(evidence)
}

/** Right behind a commit that wrote a receipt and its inbox row, another one deletes the receipt. */
function deleteFirstReceipt(evidence: Evidence): Evidence | undefined {
  const place = evidence.commits.findIndex(
    ({ changes }) => changes.some(isNew('inbox')) && changes.some(isNew('receipts')),
  )
  const commit = evidence.commits[place] as Commit
  const receipt = commit.changes.find(isNew('receipts')) as Change
  const deleting = { ...receipt, before: receipt.after, after: undefined }
  const cleaning = { at: commit.at + 0.5, now: 0, tx: 0, process: 'cleaner', changes: [deleting] }
  return { ...evidence, commits: evidence.commits.toSpliced(place + 1, 0, cleaning) }
}

function expecting(evidence: Evidence, expected: 'failed'): Evidence | undefined {
  const processed = evidence.commits.some(({ changes }) => changes.some(isNew('effects')))
  return processed ? { ...evidence, offered: evidence.offered.map((each) => ({ ...each, expected })) } : undefined
}

/** A row in the failed store for a message that took effect; `cutOff`: its handler was cut off, and nobody could tell. */
function shownAsFailed(evidence: Evidence, reason: string, cutOff: boolean): Evidence | undefined {
  const [done] = evidence.commits.flatMap(({ changes }) => changes.filter(isNew('effects')))
  if (done === undefined) return undefined
  const { consumer, source, id, key } = done.after as Effect
  const message = { source, id, key }
  const error = { name: 'Error', message: 'no' }
  const row = { seq: 1e6, origin: 'inbox', consumer, message, reason, error, heldSeq: null }
  const change = { table: 'failed', key: '1e6', before: undefined, after: row, writtenAt: 1e6 } as const
  const commits = [...evidence.commits, { at: 1e6, now: 0, tx: 0, process: 'worker', changes: [change] }]
  return { ...evidence, commits, cutOff: new Set(cutOff ? [id] : []) }
}

/** The effect goes, the row stays deleted. */
function vanished(evidence: Evidence): Evidence | undefined {
  return changed(
    evidence,
    (change, commit) => isNew('effects')(change) && commit.changes.some(isGone('inbox')),
    (changes) => changes.filter((change) => change.table === 'inbox'),
  )
}
