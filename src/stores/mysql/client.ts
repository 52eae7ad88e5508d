// What hapax has to know of the inside of a connection of `mysql2`.

interface Inside {
  readonly connection?: Inside
  readonly stream?: { destroy?: () => void }
  readonly _command?: unknown
  readonly _commands?: { readonly length: number }
}

/** Whether a statement or a stream is under way: whatever is sent now would wait for its end. */
export function isBusy(client: object): boolean {
  const inside: Inside = client
  const { _command, _commands } = inside.connection ?? inside
  return Boolean(_command) || Boolean(_commands?.length)
}

/** Closes the connection at once, whatever is running on it. */
export function destroy(client: Inside & { destroy(): void }): void {
  client.destroy()
  // destroy() only ends our half: a statement that is running would keep the link.
  client.connection?.stream?.destroy?.()
}
