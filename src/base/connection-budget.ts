// One bound for the connections of many stores in a process.
//
// Handlers hold a connection as long as they run; control work (heartbeats, looks) holds one for a statement. Handlers leave some places
// to control work, so that they never wait for each other: a handler that holds a place waits for control work at most.
//
// A store takes another place only while more are free than it has already. So one busy store gets half of them, a second one half of
// what is left, and the last free place always goes to a store that has none.

import { systemClock, within } from './clock.ts'
import { asError, messageOf, storeClosed } from './errors.ts'
import type { Borrowed, Lender, Making, Purpose } from './lender.ts'
import { expected, positiveInteger } from './options.ts'

/** A bound for the open connections of all stores that are given it: `postgres({ url, budget })`, `mysql({ url, budget })`. */
export interface ConnectionBudget {
  /** Connections at most. */
  readonly max: number
  /** Connections that exist, also idle ones and those that are being opened or closed. */
  readonly open: number
  /** Those that are in use. */
  readonly busy: number
  /** Requests for one that wait. */
  readonly waiting: number
}

/**
 * A bound for the connections of many stores together, in this process; 4 at least. A store that needs a connection while all are taken
 * gets the place of one that is idle, of whatever store. A quarter, and two at least, is kept for heartbeats and looks.
 */
export function connectionBudget(max: number): ConnectionBudget {
  const checked = positiveInteger('the connection budget', max, 0)
  if (checked < LEAST) expected('the connection budget', `at least ${LEAST} connections`, max)
  return new Budget(checked)
}

/** Below it, too little would be left for handlers. */
const LEAST = 4

/** Checks the option `budget`. */
export function budgetOption(given: unknown): Budget | undefined {
  if (given === undefined || given instanceof Budget) return given
  expected('budget', 'what connectionBudget() returned', given)
}

interface Request {
  readonly member: Member
  readonly purpose: Purpose
  readonly began: number
  readonly resolve: (place: Place) => void
  readonly reject: (error: Error) => void
}

/** A connection that exists. */
interface Place {
  readonly client: object
  readonly member: Member
  /** Ends the wait until it is closed for being idle. */
  stay: () => void
  isGone: boolean
  readonly closed: Promise<void>
}

/** How long an idle connection is kept. */
const IDLE_MS = 10_000
/** How long a store goes before others that have no connection. */
const SLICE_MS = 100
/** How long connections may take to end. */
const END_MS = 5_000
/** After how long a server that had no connections left is tried again. */
const RETRY_MS = 1_000
/** How long requests wait for such a server, if their store gets no connection meanwhile. Most callers give up before. */
const FULL_MS = 60_000

/** What `connectionBudget` returns, as stores see it. */
export class Budget implements ConnectionBudget {
  readonly max: number
  /** How many connections handlers of all stores may hold. */
  readonly forHandlers: number
  /** How many of these one store gets while all others have none. */
  readonly forOne: number
  /** How many connections may be tried at once to databases that were not there the last time. */
  readonly #mostTrials: number
  readonly #busy: Record<Purpose, number> = { handlers: 0, control: 0 }
  readonly #queue: Request[] = []
  /** The longest idle first. */
  readonly #idle = new Set<Place>()
  #roomAwaited: (() => void)[] = []
  #open = 0
  #trials = 0

  constructor(max: number) {
    this.max = max
    const kept = Math.max(2, Math.floor(max / 4))
    this.forHandlers = max - kept
    this.forOne = Math.ceil(this.forHandlers / 2)
    this.#mostTrials = Math.floor(kept / 2)
  }

  get open(): number {
    return this.#open
  }

  get busy(): number {
    return this.#busy.handlers + this.#busy.control
  }

  get waiting(): number {
    return this.#queue.length
  }

  /** Takes part in the budget. */
  lender<Client extends object>(making: Making<Client>): Lender<Client> {
    return new Member(this, making) as Lender<object> as Lender<Client>
  }

  acquire(member: Member, purpose: Purpose): Promise<Place> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ member, purpose, began: performance.now(), resolve, reject })
      this.#grant()
    })
  }

  giveBack(place: Place, purpose: Purpose, broken: boolean): void {
    const { member } = place
    this.#leave(member, purpose)
    if (broken) member.making.destroy(place.client)
    else if (member.isClosed) void this.end(place)
    else if (!place.isGone) this.#rest(place)
    this.#grant()
  }

  /** Ends a connection that nobody uses. Its place is free when the socket is closed. */
  async end(place: Place): Promise<void> {
    this.#take(place)
    const { making } = place.member
    making.end(place.client).catch(() => {})
    await within(systemClock, END_MS, place.closed, () => making.destroy(place.client))
  }

  /** Fails what waits for a connection of a store: everything, or what has waited since then. */
  fail(member: Member, error: Error, since: number = Number.POSITIVE_INFINITY): void {
    const waiting = this.#queue.filter((each) => each.member === member && each.began < since)
    for (const each of waiting) {
      this.#queue.splice(this.#queue.indexOf(each), 1)
      each.reject(error)
    }
  }

  #rest(place: Place): void {
    this.#idle.add(place)
    place.member.idle.add(place)
    const timer = setTimeout(() => void this.end(place), IDLE_MS).unref()
    place.stay = () => clearTimeout(timer)
  }

  #take(place: Place): void {
    place.stay()
    this.#idle.delete(place)
    place.member.idle.delete(place)
  }

  #leave(member: Member, purpose: Purpose): void {
    this.#busy[purpose] -= 1
    member.held[purpose] -= 1
  }

  #grant(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      this.#queue.splice(this.#queue.indexOf(next), 1)
      this.#busy[next.purpose] += 1
      next.member.held[next.purpose] += 1
      this.#serve(next)
    }
  }

  #next(): Request | undefined {
    let best: Request | undefined
    for (const each of this.#queue) {
      if (this.#mayHave(each) && (best === undefined || comesBefore(each, best))) best = each
    }
    return best
  }

  #mayHave({ member, purpose }: Request): boolean {
    const share = purpose === 'handlers' ? this.forHandlers : this.max - 1
    const free = Math.min(this.max - this.busy, share - this.#busy[purpose])
    const has = member.held[purpose]
    if (free <= has || has >= member.making.most[purpose]) return false
    if (member.idle.size > 0 || member.isThere) return true
    if (member.isResting) return false
    // A database that does not answer takes one place at most, and all of these together few.
    return member.opening === 0 && (!member.isAway || this.#trials < this.#mostTrials)
  }

  #serve(request: Request): void {
    const [idle] = request.member.idle
    if (idle === undefined) return void this.#openFor(request)
    this.#take(idle)
    request.member.servedAt = performance.now()
    request.resolve(idle)
  }

  async #openFor(request: Request): Promise<void> {
    const { member, purpose } = request
    const trial = member.isAway ? 1 : 0
    this.#trials += trial
    member.opening += 1
    try {
      const place = await this.#opened(member)
      member.found(true)
      request.resolve(place)
    } catch (error) {
      member.found(false)
      this.#leave(member, purpose)
      this.#putBack(request)
      if (member.making.isFull(error) && !member.isClosed) this.#full(member, noneLeft(error))
      else this.fail(member, asError(error))
    }
    member.opening -= 1
    this.#trials -= trial
    this.#grant()
  }

  /** Where it was: those that came later stay behind it. */
  #putBack(request: Request): void {
    const later = this.#queue.findIndex(({ began }) => began > request.began)
    this.#queue.splice(later === -1 ? this.#queue.length : later, 0, request)
  }

  /** The server has no connections left: requests go on waiting for one that others close. */
  #full(member: Member, error: Error): void {
    member.shortage = error
    const now = performance.now()
    if (now - member.servedAt > FULL_MS) this.fail(member, error, now - FULL_MS)
    if (member.isResting) return
    member.isResting = true
    // Ours may be what it lacks.
    const oldest = [...this.#idle].find((each) => each.member.making.server === member.making.server)
    if (oldest !== undefined) void this.end(oldest)
    setTimeout(() => {
      member.isResting = false
      this.#grant()
      // Not tried again: what waits from now on waits for something else.
      if (member.opening === 0) member.shortage = undefined
    }, RETRY_MS)
  }

  async #opened(member: Member): Promise<Place> {
    await this.#room()
    try {
      const client = await member.making.open()
      const { promise, resolve } = Promise.withResolvers<void>()
      const place: Place = { client, member, isGone: false, closed: promise, stay: () => {} }
      member.places.add(place)
      member.making.onClosed(client, () => {
        this.#gone(place)
        resolve()
      })
      return place
    } catch (error) {
      this.#freed()
      throw error
    }
  }

  /** Takes one of the connections that may exist; an idle one of another store may have to go first. */
  async #room(): Promise<void> {
    while (this.#open >= this.max) {
      const [oldest] = this.#idle
      if (oldest !== undefined) void this.end(oldest)
      await new Promise<void>((resolve) => this.#roomAwaited.push(resolve))
    }
    this.#open += 1
  }

  #gone(place: Place): void {
    if (place.isGone) return
    place.isGone = true
    this.#take(place)
    place.member.left(place)
    this.#freed()
    this.#grant()
  }

  #freed(): void {
    this.#open -= 1
    for (const resolve of this.#roomAwaited.splice(0)) resolve()
  }
}

/**
 * A store that has just got a connection uses it for all that waits, for a while: to open one takes longer than most statements. Else
 * control work first; then the store that has the fewest; then the one that waits longest.
 */
function comesBefore(one: Request, other: Request): boolean {
  const [stays, otherStays] = [one.member.mayStay, other.member.mayStay]
  if (stays !== otherStays) return stays
  if (one.purpose !== other.purpose) return one.purpose === 'control'
  return one.member.held[one.purpose] < other.member.held[other.purpose]
}

/** One store in a budget. */
class Member implements Lender<object> {
  readonly making: Making<object>
  /** How many connections are in use, or about to be. */
  readonly held: Record<Purpose, number> = { handlers: 0, control: 0 }
  readonly idle: Set<Place> = new Set()
  readonly places: Set<Place> = new Set()
  opening = 0
  /** The last connection could be opened. */
  isThere = false
  /** The last connection could not be opened. */
  isAway = false
  shortage: Error | undefined
  /** None is opened for a moment, because the server had none left. */
  isResting = false
  /** When it got a connection the last time. */
  servedAt: number = Number.NEGATIVE_INFINITY
  isClosed = false
  readonly #budget: Budget
  /** When it got its first connection of those that it has. */
  #since = 0
  #empty: () => void = () => {}

  constructor(budget: Budget, making: Making<object>) {
    this.#budget = budget
    this.making = making
  }

  async borrow(purpose: Purpose): Promise<Borrowed<object>> {
    if (this.isClosed) throw storeClosed()
    const place = await this.#budget.acquire(this, purpose)
    let isBack = false
    return {
      client: place.client,
      giveBack: (broken) => {
        if (isBack) return
        isBack = true
        this.#budget.giveBack(place, purpose, broken)
      },
    }
  }

  /** Whether a connection is at hand that has not been used by this store for long. */
  get mayStay(): boolean {
    return this.idle.size > 0 && performance.now() - this.#since < SLICE_MS
  }

  found(there: boolean): void {
    this.isThere = there
    this.isAway = !there
    this.shortage = undefined
    if (!there) return
    this.servedAt = performance.now()
    if (this.places.size === 1) this.#since = this.servedAt
  }

  left(place: Place): void {
    this.places.delete(place)
    if (this.places.size === 0) this.#empty()
  }

  async close(): Promise<void> {
    this.isClosed = true
    this.#budget.fail(this, storeClosed())
    const empty = new Promise<void>((resolve) => {
      this.#empty = resolve
    })
    for (const place of [...this.idle]) void this.#budget.end(place)
    // A connection that does not answer would keep it waiting for ever.
    if (this.places.size > 0) await within(systemClock, END_MS, empty, () => {})
  }
}

function noneLeft(cause: unknown): Error {
  const what = `the server has no connections left (${messageOf(asError(cause))})`
  const advice = 'raise its limit, or lower the connection budget of this process or of others'
  // With what the server's error is recognised by, it is an error of the link itself.
  return Object.assign(new Error(`${what}: ${advice}`, { cause }), { ...asError(cause) })
}
