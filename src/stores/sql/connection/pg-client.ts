// What connections have to know of the inside of a client of `pg`, which more than one of them uses.

interface Inside {
  readonly connection?: { readonly stream?: { destroy?: () => void } }
  readonly _activeQuery?: unknown
  readonly _queryQueue?: readonly unknown[]
  readonly _sentQueryQueue?: readonly unknown[]
  // Their names before pg 8.17, which warns when they are read.
  readonly activeQuery?: unknown
  readonly queryQueue?: readonly unknown[]
}

/** Whether a statement, a cursor or a stream is under way: whatever is sent now would wait for its end. */
export function isBusy(client: object): boolean {
  const inside: Inside = client
  if (!('_queryQueue' in client)) return Boolean(inside.activeQuery) || Boolean(inside.queryQueue?.length)
  return Boolean(inside._activeQuery) || Boolean(inside._queryQueue?.length) || Boolean(inside._sentQueryQueue?.length)
}

/** Not end(): that would wait for the statement that is running. */
export function destroy(client: object): void {
  const { connection }: Inside = client
  connection?.stream?.destroy?.()
}
