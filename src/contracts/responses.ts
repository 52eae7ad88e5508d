import type { Receipt } from './rows.ts'

/** The response to an HTTP request, as it is sent again. */
export interface StoredResponse {
  readonly status: number
  /** Names in lower case, with their values. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Uint8Array
}

/**
 * A response that is kept with the receipt of its request. The receipt is written by the same transaction, or was there before. It takes
 * the place of an earlier one: a person had the request run again.
 */
export interface ResponseRow {
  readonly consumer: string
  readonly messageKey: string
  /** The key that the client sent: what people search for. */
  readonly id: string
  readonly response: StoredResponse
  /** After this time the response expires, by the clock of the database. */
  readonly keepMs: number
}

/** What is known of a request that came before. */
export interface KnownRequest {
  readonly receipt: Receipt
  /** Undefined: it is not finished, or it ended without a response. */
  readonly response: StoredResponse | undefined
}

/** Responses to HTTP requests. They are written by `StoreTransactions`, with the receipts they belong to. */
export interface StoreResponses {
  /** Undefined: nothing is known of it, or its response has expired. */
  read(consumer: string, messageKey: string): Promise<KnownRequest | undefined>
  /**
   * Deletes expired responses together with their receipts and journals, the oldest first and at most so many. What waits in the
   * inbox or is in the failed store stays, as do rows that another transaction has locked. Returns how many were deleted.
   */
  expire(limit: number): Promise<number>
  /** Does the same for one request, so that its key is free at once. False: there is no such response, it has not expired, or it stays. */
  forget(consumer: string, messageKey: string): Promise<boolean>
}
