/**
 * What ends work by force. An `AbortSignal` is one; the deadlines of transactions are lighter ones, because every transaction has one
 * and hardly any is ever aborted.
 */
export interface Interrupt {
  readonly aborted: boolean
  /** What the work rejects with. */
  readonly reason: unknown
  throwIfAborted(): void
  addEventListener(type: 'abort', listener: () => void, options?: { readonly once?: boolean }): void
  removeEventListener(type: 'abort', listener: () => void): void
}
