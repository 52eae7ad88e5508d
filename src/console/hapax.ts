import type {
  BulkOptions,
  BulkSummary,
  By,
  EditOptions,
  FailedQuery,
  RetryFailedOptions,
  RetryingWhere,
  SentQuery,
  SettleOptions,
  Visit,
} from '../admin/index.ts'
import type {
  AuditEntry,
  AuditSubject,
  AuditWhere,
  BulkOperation,
  EffectRow,
  EffectWhere,
  FailedGroup,
  FailedMessage,
  FailedWhere,
  Finding,
  HeldKey,
  ListedEffect,
  ListedReceipt,
  MinuteSample,
  Numbered,
  Origin,
  ReceiptWhere,
  SentMessage,
  StoredMessage,
  StoreStatus,
  Trace,
  WaitingMessage,
  WaitingWhere,
} from '../contracts/index.ts'

/** How to page through what is numbered. */
interface Paged {
  readonly before?: string
  readonly limit?: number
  readonly signal?: AbortSignal
}

/** How to page through what is read by its key. */
interface Listing {
  readonly after?: string
  readonly limit?: number
  readonly signal?: AbortSignal
}

interface Listed<T> {
  readonly rows: readonly T[]
  readonly after: string | undefined
}

/** What an operation is about, as `hapax.operations.begin` takes it. */
interface Begun {
  readonly kind: 'retry' | 'discard'
  readonly where?: FailedWhere
  readonly all?: true
  readonly perSecond?: number
  readonly effectsChecked?: boolean
  readonly by?: By
  readonly id?: string
}

interface Pausable {
  pause(name: string, by?: By): Promise<unknown>
  resume(name: string, by?: By): Promise<unknown>
}

/** The part of a hapax that a console uses: what `createHapax` returns for a store with transactions has it. */
export interface ConsoleHapax {
  readonly failed: {
    list(query?: FailedQuery): Promise<readonly FailedMessage[]>
    count(where?: FailedWhere): Promise<number>
    groups(query?: FailedWhere & { readonly limit?: number }): Promise<readonly FailedGroup[]>
    get(seq: string): Promise<FailedMessage | undefined>
    effects(seq: string): Promise<readonly EffectRow[]>
    retry(seq: string, options?: RetryFailedOptions): Promise<void>
    discard(seq: string, by?: By): Promise<void>
    edit(seq: string, data: unknown, options?: EditOptions): Promise<{ readonly id: string }>
    settle(seq: string, options: SettleOptions): Promise<void>
    note(seq: string, by: By & { readonly note: string }): Promise<void>
  }
  readonly keys: {
    list(query?: { readonly limit?: number }): Promise<readonly HeldKey[]>
    release(held: Pick<HeldKey, 'origin' | 'scope' | 'key'>, by?: By): Promise<void>
  }
  readonly sent: {
    list(query?: SentQuery): Promise<readonly SentMessage[]>
    republish(seq: string, by?: By): Promise<void>
  }
  readonly receipts: { list(query?: ReceiptWhere & Listing): Promise<Listed<ListedReceipt>> }
  readonly effects: { list(query?: EffectWhere & Listing): Promise<Listed<ListedEffect>> }
  readonly consumers: Pausable & {
    list(): Promise<readonly { readonly name: string; readonly types: readonly string[]; readonly ordered: boolean }[]>
  }
  readonly relays: Pausable
  readonly messages: {
    list(query: WaitingWhere & Paged & { readonly origin: Origin }): Promise<Numbered<WaitingMessage>>
    get(
      origin: Origin,
      seq: string,
    ): Promise<{ readonly row: WaitingMessage; readonly message: StoredMessage } | undefined>
    why(origin: Origin, seq: string): Promise<string>
    retries(query: { readonly origin: Origin; readonly limit?: number }): Promise<readonly WaitingMessage[]>
    retry(origin: Origin, seq: string, by?: By): Promise<void>
    retryAll(where: RetryingWhere & { readonly all?: true }, options?: BulkOptions): Promise<BulkSummary>
  }
  readonly audit: {
    list(query?: AuditWhere & Paged): Promise<Numbered<AuditEntry>>
    record(visit: Visit, by?: By, about?: AuditSubject): Promise<void>
  }
  readonly operations: {
    begin(what: Begun): Promise<BulkOperation>
    get(id: string): Promise<BulkOperation | undefined>
    list(query?: { readonly before?: string; readonly limit?: number }): Promise<readonly BulkOperation[]>
    pause(id: string, by?: By): Promise<unknown>
    resume(id: string, by?: By): Promise<unknown>
    cancel(id: string, by?: By): Promise<unknown>
    work(options: { readonly signal: AbortSignal; readonly report?: (error: Error) => void }): Promise<void>
  }
  status(): Promise<StoreStatus>
  explain(id: string, source?: string, options?: { readonly scan?: boolean }): Promise<readonly Trace[]>
  doctor(): Promise<readonly Finding[]>
  history(query: { readonly sinceMs: number }): Promise<readonly MinuteSample[]>
}
