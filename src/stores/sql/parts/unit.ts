import type { Executor, InboxRow, Reach, Receipt, Unit, Views } from '../../../contracts/index.ts'

const NO_RECEIPTS: ReadonlyMap<string, Receipt> = new Map()
export const NO_SEQS: ReadonlySet<string> = new Set()
export const NO_ROWS: ReadonlyMap<string, InboxRow> = new Map()

/** What a transaction found when it was opened. */
interface Found {
  readonly existing?: ReadonlyMap<string, Receipt>
  readonly present?: ReadonlySet<string>
  readonly claimed?: ReadonlyMap<string, InboxRow>
}

/** What a unit needs of its connection. */
interface Opener<Tx> {
  executor(tx: Tx): Executor
  mostBytes(tx: Tx): number
  readonly reach?: ((tx: Tx) => Reach) | undefined
  settle?(tx: Tx): Promise<void> | undefined
  views?(tx: Tx): Views<Tx> | undefined
  assertAwaited?(tx: Tx): void
}

/** An open transaction, as its body has it. */
export class SqlUnit<Tx> implements Unit<Tx> {
  readonly tx: Tx
  existing: ReadonlyMap<string, Receipt> = NO_RECEIPTS
  present: ReadonlySet<string> = NO_SEQS
  claimed: ReadonlyMap<string, InboxRow> = NO_ROWS
  readonly #connection: Opener<Tx>
  readonly #check: (executor: Executor) => Promise<void>
  #executor: Executor | undefined

  constructor(tx: Tx, connection: Opener<Tx>, check: (executor: Executor) => Promise<void>) {
    this.tx = tx
    this.#connection = connection
    this.#check = check
  }

  /** For statements between the first and the last ones. Most transactions have none. */
  get executor(): Executor {
    this.#executor ??= this.#connection.executor(this.tx)
    return this.#executor
  }

  /** The same unit, with what was found. */
  with({ existing = this.existing, present = this.present, claimed = this.claimed }: Found): this {
    this.existing = existing
    this.present = present
    this.claimed = claimed
    return this
  }

  check(): Promise<void> {
    return this.#check(this.executor)
  }

  reach(): Reach {
    return this.#connection.reach?.(this.tx) ?? 'unseen'
  }

  /** Releasing the guard also releases every later savepoint, so that the next handler cannot name any of them. */
  async border(): Promise<void> {
    const settling = this.#connection.settle?.(this.tx)
    if (settling !== undefined) await settling
    await this.check()
    // Discard the reach of the statements that hapax itself has just sent.
    this.reach()
  }

  views(): Views<Tx> | undefined {
    return this.#connection.views?.(this.tx)
  }

  assertAwaited(): void {
    this.#connection.assertAwaited?.(this.tx)
  }

  mostBytes(): number {
    return this.#connection.mostBytes(this.tx)
  }
}
