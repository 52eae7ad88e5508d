import { DatabaseSync } from 'node:sqlite'
import type { Hapax } from '../../index.ts'
import { defineMessage, type MessageType } from '../../message/index.ts'
import type { SqliteTx } from '../../stores/sqlite/index.ts'

interface Order {
  readonly orderId: number
  readonly cents: number
}

/** Published by the order service, handled by billing. */
export const OrderPlaced: MessageType<Order> = defineMessage<Order>('order.placed', {
  key: (order) => String(order.orderId),
})
/** Published by billing; the audit counts these. */
export const InvoiceCreated: MessageType<Order> = defineMessage<Order>('invoice.created')

/** Creates the shop's tables. Without a unique key on order_id, a second invoice would be inserted, and the audit would find it. */
export function createTables(path: string): void {
  const database = new DatabaseSync(path)
  database.exec(`
    create table orders (order_id integer primary key, cents integer not null, message_id text not null) strict;
    create table invoices (invoice_id integer primary key, order_id integer not null, cents integer not null) strict;
    create index invoices_order on invoices (order_id);`)
  database.close()
}

/** Commits an order together with its message, as the order service. */
export function placeOrder(hapax: Hapax<SqliteTx>, order: Order): Promise<void> {
  return hapax.transaction(async (tx) => {
    const { id } = await hapax.publish(tx, OrderPlaced, order)
    await tx.query('insert into orders (order_id, cents, message_id) values (?, ?, ?)', [
      order.orderId,
      order.cents,
      id,
    ])
  })
}

/** Writes the invoice of an order, in the transaction of its handler. */
export async function writeInvoice(tx: SqliteTx, { orderId, cents }: Order): Promise<void> {
  await tx.query('insert into invoices (order_id, cents) values (?, ?)', [orderId, cents])
}

/** What the audit found. */
export interface Audit {
  readonly orders: number
  readonly invoices: number
  /** Orders without an invoice, and invoices without their message. Orders in the failed store are not lost. */
  readonly lost: number
  /** Orders with more than one invoice, and invoices with more than one message. */
  readonly doubled: number
  readonly failed: number
}

/** Reads the tables of the shop and of hapax over a separate plain connection, independently of hapax. */
export class Books {
  readonly #database: DatabaseSync

  constructor(path: string) {
    this.#database = new DatabaseSync(path, { readOnly: true })
  }

  audit(): Audit {
    const failed = this.#number(`select count(*) from hapax_failed where type = 'order.placed'`)
    return {
      orders: this.#number('select count(*) from orders'),
      invoices: this.invoices(),
      lost: this.#number(ORDERS_WITHOUT_INVOICE) + this.#number(INVOICES_WITHOUT_MESSAGE),
      doubled: this.#number(ORDERS_WITH_MORE) + this.#number(INVOICES_WITH_MORE),
      failed,
    }
  }

  invoices(): number {
    return this.#number('select count(*) from invoices')
  }

  /** How many messages wait for another attempt. */
  waiting(): number {
    return this.#number('select count(*) from hapax_inbox')
  }

  /** How many messages wait for the relay. */
  outbox(): number {
    return this.#number('select count(*) from hapax_outbox')
  }

  /** The message of the first order. */
  firstMessageId(): string {
    const row = this.#database.prepare('select message_id from orders order by order_id limit 1').get()
    return String(row?.['message_id'])
  }

  close(): void {
    this.#database.close()
  }

  #number(sql: string): number {
    return Number(Object.values(this.#database.prepare(sql).get() ?? {})[0])
  }
}

const ORDERS_WITHOUT_INVOICE = `
select count(*) from orders o
where not exists (select 1 from invoices i where i.order_id = o.order_id)
  and not exists (select 1 from hapax_failed f where f.id = o.message_id)`

const ORDERS_WITH_MORE = `
select count(*) from (select order_id from invoices group by order_id having count(*) > 1)`

const ANNOUNCED = `
select json_extract(cast(data as text), '$.orderId') as order_id
from (select type, data from hapax_outbox union all select type, data from hapax_sent)
where type = 'invoice.created'`

const INVOICES_WITHOUT_MESSAGE = `
select count(*) from invoices where order_id not in (${ANNOUNCED})`

const INVOICES_WITH_MORE = `
select count(*) from (select order_id from (${ANNOUNCED}) group by order_id having count(*) > 1)`
