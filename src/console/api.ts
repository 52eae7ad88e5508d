// What the console's server and its page say to each other, as JSON. Times are ISO texts, numbers of rows (`seq`) are texts. The server
// builds these, the page reads them; neither imports anything else of the other.

export type Role = 'viewer' | 'operator' | 'admin'

/** GET api/session: who looks, and what they may do. */
export interface SessionView {
  readonly actor: string
  readonly role: Role
  /** Nothing may be changed by anybody. */
  readonly readOnly: boolean
  /** Whether this person may see payloads and headers. */
  readonly payloads: boolean
  /** For people: `postgres`, `sqlite`. */
  readonly store: string
  readonly version: string
  /** How this person entered, where they can sign out by POST api/logout. Null: they signed in to the application around the console. */
  readonly signOut: 'token' | 'password' | null
  /** How often the page asks again. */
  readonly pollMs: number
}

/** A body of an error: RFC 9457. `code` is that of a HapaxError, or of the console. */
export interface ProblemView {
  readonly title: string
  readonly status: number
  readonly code: string
  readonly detail: string
  readonly advice?: string
  /** Where the database did not answer (503): what it answered to the same question before, and how long ago that was. */
  readonly last?: { readonly ageMs: number; readonly answer: unknown }
}

export interface ErrorView {
  readonly name: string
  readonly message: string
  readonly code?: string | undefined
  readonly stack?: string | undefined
}

export interface PauseView {
  readonly actor: string
  readonly note: string | null
  readonly at: string
}

export interface ConsumerView {
  readonly name: string
  readonly waiting: number
  readonly retrying: number
  readonly held: number
  readonly failed: number
  readonly unknownEffects: number
  readonly oldestAt: string | null
  readonly estimated: boolean
  readonly types: readonly string[]
  readonly ordered: boolean
  /** Live workers that serve it. */
  readonly workers: number
  /** Messages wait for a worker, and no live one serves it. */
  readonly unserved: boolean
  readonly paused: PauseView | null
}

export interface RelayView {
  readonly name: string
  readonly destination: string | null
  readonly waiting: number
  /** Those of them that the broker has not accepted, and that are sent again. */
  readonly retrying: number
  /** Why the newest of these was not accepted. */
  readonly error: ErrorView | null
  readonly held: number
  readonly failed: number
  readonly oldestAt: string | null
  readonly estimated: boolean
  readonly workers: number
  /** As for consumers. */
  readonly unserved: boolean
  /** How many of these workers cannot reach the destination. */
  readonly down: number
  /** Why the first of them cannot. */
  readonly reason: string | null
  readonly paused: PauseView | null
}

/** One line of a chart: one number per minute, the oldest first; null: nobody sampled. */
export interface SeriesView {
  readonly origin: 'inbox' | 'outbox'
  readonly scope: string
  readonly done: readonly (number | null)[]
  readonly retried: readonly (number | null)[]
  readonly failed: readonly (number | null)[]
  readonly duplicates: readonly (number | null)[]
  /** The mean time from publish to effect. */
  readonly lagMs: readonly (number | null)[]
  readonly waiting: readonly (number | null)[]
  readonly oldestMs: readonly (number | null)[]
}

export interface HistoryView {
  /** The minutes, as seconds since 1970. */
  readonly minutes: readonly number[]
  readonly series: readonly SeriesView[]
}

/** GET api/overview; also the data of the pages on consumers and relays. */
export interface OverviewView {
  readonly at: string
  readonly consumers: readonly ConsumerView[]
  readonly relays: readonly RelayView[]
  readonly failed: readonly {
    readonly origin: 'inbox' | 'outbox'
    readonly scope: string
    readonly reason: string
    readonly count: number
    readonly estimated: boolean
  }[]
  readonly workers: { readonly alive: number; readonly stuck: number; readonly dead: number }
  readonly tables: readonly { readonly table: string; readonly rows: number | null; readonly oldestMs: number | null }[]
  readonly operations: readonly OperationView[]
  readonly history: HistoryView
}

/** GET api/workers */
export interface WorkersView {
  readonly at: string
  readonly workers: readonly WorkerView[]
}

export interface WorkerView {
  readonly id: string
  readonly name: string
  readonly state: 'alive' | 'stuck' | 'dead'
  readonly startedAt: string
  readonly silentMs: number
  readonly inHand: number
  readonly consumers: readonly string[]
  readonly relays: readonly string[]
  /** Those whose destination it cannot reach, and why. */
  readonly down: readonly { readonly relay: string; readonly reason: string }[]
  /** How many of the lanes are this worker's, by consumer or relay. */
  readonly lanes: readonly { readonly scope: string; readonly lanes: number; readonly of: number }[]
}

export type Place = 'inbox' | 'outbox' | 'failed' | 'sent' | 'receipts'

/** One row of a search, wherever it was found. */
export interface RowView {
  readonly place: Place
  readonly seq: string | null
  /** The consumer, or the relay. */
  readonly scope: string
  readonly source: string
  readonly id: string
  readonly type: string
  readonly key: string | null
  readonly state: string
  readonly attempts: number | null
  readonly at: string
  readonly dueAt: string | null
  readonly error: ErrorView | null
}

/** GET api/messages?place&scope&type&key&id&state&since&until&cursor&limit */
export interface MessagesView {
  readonly rows: readonly RowView[]
  /** Where the next page begins; null: there is no more. A page may be short, or empty, although there is more. */
  readonly cursor: string | null
}

/** POST api/messages/retry. */
export interface RetriedView {
  /** How many messages are due now. */
  readonly done: number
  /** Whether the time of the request was up before the last message. */
  readonly stopped: boolean
}

/** The payload of a message, exactly as it is stored, or a part of it. */
export interface PayloadView {
  readonly contentType: string | null
  readonly bytes: number
  /** Text as it is (numbers are not parsed), or hex of bytes that are no text. */
  readonly text: string
  readonly encoding: 'text' | 'hex'
  /** Whether this is all of it. */
  readonly whole: boolean
  /** Whether the server has changed it, because this person may not see it as it is. */
  readonly redacted: boolean
  readonly headers: readonly { readonly name: string; readonly value: string }[]
}

/** One moment in the life of a message. */
export interface MomentView {
  readonly at: string
  readonly where:
    | 'receipt'
    | 'response'
    | 'inbox'
    | 'outbox'
    | 'sent'
    | 'effect'
    | 'audit'
    | 'failed'
    | 'claim'
    | 'attempt'
  /** The consumer, or the relay. */
  readonly scope: string
  /** What happened, in one sentence. */
  readonly text: string
  readonly error: ErrorView | null
  readonly actor: string | null
  readonly note: string | null
  readonly seq: string | null
}

/** GET api/message?id&source&scan: the life of one message. */
export interface LifeView {
  readonly id: string
  /** More than one: different messages have this id. */
  readonly sources: readonly string[]
  readonly type: string | null
  readonly key: string | null
  readonly moments: readonly MomentView[]
  /** One sentence for each place where it waits. */
  readonly waiting: readonly {
    readonly scope: string
    readonly origin: 'inbox' | 'outbox'
    readonly seq: string
    readonly why: string
  }[]
  readonly failed: readonly string[]
  readonly effects: readonly EffectView[]
  readonly payload: PayloadView | null
  readonly traceId: string | null
  readonly traceUrl: string | null
  /** Whether all places were searched; false: the id is no UUIDv7, and only known sources were tried. */
  readonly thorough: boolean
}

/** GET api/failed/groups */
export interface GroupsView {
  /** The largest ones. */
  readonly groups: readonly GroupView[]
  /** There are others, which are not shown. */
  readonly more: boolean
}

export interface GroupView {
  readonly origin: 'inbox' | 'outbox'
  readonly scope: string
  readonly type: string
  readonly reason: string
  readonly errorHash: string
  readonly count: number
  readonly firstAt: string
  readonly lastAt: string
  readonly error: ErrorView
  readonly seq: string
}

/** Which failed messages: the query of api/failed, api/failed/groups, and `where` of operations. */
export interface FailedQueryView {
  readonly origin?: 'inbox' | 'outbox'
  readonly scope?: string
  readonly type?: string
  readonly reason?: string
  readonly errorHash?: string
  readonly since?: string
  readonly until?: string
}

/** GET api/failed/:seq */
export interface FailedView extends RowView {
  readonly origin: 'inbox' | 'outbox'
  readonly reason: string
  readonly errorHash: string
  readonly held: boolean
  readonly replacedBy: string | null
  readonly history: readonly {
    readonly at: string
    readonly attempt: number
    readonly worker: string
    readonly error: ErrorView
  }[]
  readonly failures: number
  readonly effects: readonly EffectView[]
  readonly payload: PayloadView | null
}

export interface EffectView {
  readonly scope: string
  readonly messageKey: string
  readonly name: string
  /** The idempotency key that the call carries. Null: its message is unknown, or the call carries no such key. */
  readonly key: string | null
  readonly state: 'started' | 'done' | 'not-done' | 'unknown'
  /** The call happened, but its result could not be stored. */
  readonly resultLost: boolean
  readonly attempts: number
  readonly error: ErrorView | null
  readonly firstAt: string
  readonly lastAt: string
  readonly message: { readonly source: string; readonly id: string; readonly type: string } | null
  /** The failed row where it is settled. */
  readonly seq: string | null
}

/** GET api/effects?state&scope&cursor */
export interface EffectsView {
  readonly rows: readonly EffectView[]
  readonly cursor: string | null
}

/** GET api/keys */
export interface KeysView {
  /** There are others, which are not shown. */
  readonly more: boolean
  readonly keys: readonly {
    readonly origin: 'inbox' | 'outbox'
    readonly scope: string
    readonly key: string
    readonly id: string
    readonly seq: string | null
    readonly heldAt: string
    readonly waiting: number
  }[]
}

/** GET api/retries: what will be tried again, the next one first. */
export interface RetriesView {
  readonly rows: readonly RowView[]
  /** There are others, which are due later. */
  readonly more: boolean
}

/** GET api/audit?actor&action&scope&since&until&cursor */
export interface AuditView {
  readonly rows: readonly {
    readonly seq: string
    readonly at: string
    readonly action: string
    readonly actor: string
    readonly note: string | null
    readonly origin: 'inbox' | 'outbox' | null
    readonly scope: string | null
    readonly source: string | null
    readonly id: string | null
    readonly type: string | null
  }[]
  readonly cursor: string | null
}

/** GET api/health: what `hapax doctor` says. */
export interface HealthView {
  readonly findings: readonly {
    readonly check: string
    readonly level: 'ok' | 'warning' | 'error'
    readonly message: string
    readonly advice: string
  }[]
}

/** GET api/operations, api/operations/:id */
export interface OperationView {
  readonly id: string
  readonly kind: 'retry' | 'discard' | 'republish'
  readonly where: Readonly<Record<string, string>>
  readonly perSecond: number | null
  readonly total: number
  readonly state: 'running' | 'paused' | 'done' | 'cancelled'
  readonly done: number
  readonly gone: number
  readonly errors: number
  readonly error: ErrorView | null
  readonly actor: string
  readonly note: string | null
  readonly createdAt: string
  readonly changedAt: string
  readonly endedAt: string | null
  readonly worked: boolean
}

export interface OperationsView {
  readonly operations: readonly OperationView[]
  readonly cursor: string | null
}

/** Bodies of POST. Every change may have a note, and answers with `{ ok: true }` unless said otherwise. */
interface Posted {
  /** api/failed/:seq/retry, /discard, /note (with a note), api/sent/:seq/republish, api/consumers/:name/pause, … */
  readonly note?: string
}

/** POST api/failed/:seq/retry. */
export interface PostedRetry extends Posted {
  /** The user has checked the handler's effects: required for messages that failed as `broken-atomicity`. Also for edits and settlements. */
  readonly effectsChecked?: true | undefined
}

/** POST api/failed/:seq/edit -> { id } of the message in its place. `data` is the new payload as text, and replaces it exactly. */
export interface PostedEdit extends PostedRetry {
  readonly data: string
}

/** POST api/operations -> OperationView. */
export interface PostedOperation extends Posted {
  readonly kind: 'retry' | 'discard'
  readonly where: FailedQueryView
  /** Explicitly all failed messages; instead of conditions. */
  readonly all?: true
  readonly perSecond?: number
  /** A UUIDv7 that the page has minted, so that a repeated click is one operation. */
  readonly id?: string
  /** For retries: includes messages that failed as `broken-atomicity`, which count as errors otherwise. */
  readonly effectsChecked?: true
}

/** POST api/failed/count -> { count }: exactly how many an operation would be about, now. */
export interface PostedCount {
  readonly where: FailedQueryView
  readonly all?: true
}

/** POST api/keys/release */
export interface PostedRelease extends Posted {
  readonly origin: 'inbox' | 'outbox'
  readonly scope: string
  readonly key: string
}

/** POST api/messages/retry -> RetriedView: messages that wait for their next attempt become due now. */
export interface PostedRetryNow extends Posted {
  readonly origin: 'inbox' | 'outbox'
  readonly scope?: string
  readonly type?: string
  readonly key?: string
  readonly id?: string
  readonly since?: string
  readonly until?: string
}

/** POST api/failed/:seq/settle: the outcome of an external call, after which its message is retried. */
export interface PostedSettle extends PostedRetry {
  readonly effect: string
  /** `retry`: the outcome stays unknown, and the call is repeated with the same key. */
  readonly state: 'done' | 'not-done' | 'retry'
  /** JSON text that the handler gets as the result. */
  readonly result?: string
}

/** POST api/login: exchanges the one-time token for a cookie. */
interface PostedLogin {
  readonly token: string
}

/** What the page posts. */
export type PostedBody =
  | Posted
  | PostedRetry
  | PostedEdit
  | PostedOperation
  | PostedCount
  | PostedRelease
  | PostedRetryNow
  | PostedSettle
  | PostedLogin
