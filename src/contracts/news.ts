/** Short texts between processes. They save the time until the next look. Any of them may be lost. */
export interface StoreNews {
  /** Says a text to all processes that listen, also to this one. */
  tell(text: string): Promise<void>
  /**
   * Calls `heard` with every text, and without one when some may have been missed; `deaf` when this process will not hear any. Returns
   * a function that ends it.
   */
  listen(heard: (text: string | undefined) => void, deaf: (reason: string) => void): () => Promise<void>
}

/** What is listened to, and who is told. */
export interface ListenOptions {
  readonly channel: string
  /** A text was said. Undefined: texts may have been missed. */
  heard(text: string | undefined): void
  /** Its connection is up, with this session id of the server; undefined: it is lost. The server ends the session when the process dies. */
  connected(session: string | undefined): void
  /** It cannot hear anything here, and has stopped. */
  deaf(reason: string): void
  /** Says a text on the channel, over another connection. */
  tell(text: string): Promise<void>
}
