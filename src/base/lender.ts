// What a connection budget and the stores that share it say to each other.

/** What a connection is for. */
export type Purpose = 'handlers' | 'control'

/** How the connections of one store are made. */
export interface Making<Client extends object> {
  /** Where they lead: the same for stores whose connections count on the same server. */
  readonly server: string
  /** How many may be in use at once. */
  readonly most: Readonly<Record<Purpose, number>>
  /** Opens one; rejects in time. */
  open(): Promise<Client>
  /** Whether one could not be opened only because the server has none left. */
  isFull(error: unknown): boolean
  /** Ends one that nobody uses. */
  end(client: Client): Promise<unknown>
  /** Ends one at once, whatever it does. */
  destroy(client: Client): void
  /** Calls back when it is closed, by whichever side. */
  onClosed(client: Client, closed: () => void): void
}

/** A connection in use. */
export interface Borrowed<Client> {
  readonly client: Client
  /** It is not used any more; `broken`: by nobody else either. Once. */
  giveBack(broken: boolean): void
}

/** The connections of one store. */
export interface Lender<Client> {
  borrow(purpose: Purpose): Promise<Borrowed<Client>>
  /** The server has no connections left, as far as is known. */
  readonly shortage: Error | undefined
  /** Ends them, and waits for those in use, but not for ever. */
  close(): Promise<void>
}

/** The hosts of a URL, each with its port. */
export function serverOf(url: string, port: number): string {
  const hosts = /^\w+:\/\/(?:[^/?#]*@)?([^/?#]*)/.exec(url)?.[1] ?? url
  const whole = hosts
    .toLowerCase()
    .split(',')
    .map((host) => (/:\d+$/.test(host) ? host : `${host}:${port}`))
  return whole.sort().join()
}
