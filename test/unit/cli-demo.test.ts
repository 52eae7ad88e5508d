import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, it } from 'vitest'
import { chance } from '../../src/cli/demo/chance.ts'
import { Books, createTables, InvoiceCreated, placeOrder, writeInvoice } from '../../src/cli/demo/shop.ts'
import { createHapax, silentLogger } from '../../src/index.ts'
import { sqlite } from '../../src/stores/sqlite/index.ts'
import { temporaryDirectory } from '../support/cli.ts'

it('draws the same lots for the same seed, evenly', () => {
  const lots = Array.from({ length: 1000 }, (_, index) => chance(7, 'lot', index))
  expect(lots).toEqual(Array.from({ length: 1000 }, (_, index) => chance(7, 'lot', index)))
  expect(chance(8, 'lot', 0)).not.toBe(lots[0])
  expect(lots.filter((lot) => lot < 1 / 3).length / 1000).toBeCloseTo(1 / 3, 1)
})

it('finds lost and doubled invoices and messages in the books', async () => {
  const path = join(temporaryDirectory(), 'shop.db')
  const hapax = createHapax({ store: sqlite({ path }), source: '/demo', logger: silentLogger })
  await hapax.migrate()
  createTables(path)
  const books = new Books(path)
  const invoice = (orderId: number): Promise<unknown> =>
    hapax.transaction(async (tx) => {
      await writeInvoice(tx, { orderId, cents: 1 })
      await hapax.publish(tx, InvoiceCreated, { orderId, cents: 1 })
    })
  for (const orderId of [1, 2, 3]) await placeOrder(hapax, { orderId, cents: 1 })
  expect(books.audit()).toEqual({ orders: 3, invoices: 0, lost: 3, doubled: 0, failed: 0 })
  for (const orderId of [1, 2, 3]) await invoice(orderId)
  expect(books.audit()).toEqual({ orders: 3, invoices: 3, lost: 0, doubled: 0, failed: 0 })
  await invoice(3)
  expect(books.audit()).toMatchObject({ lost: 0, doubled: 2 })
  await hapax.close()
  const database = new DatabaseSync(path)
  database.exec(`delete from hapax_outbox where type = 'invoice.created'`)
  database.close()
  expect(books.audit()).toMatchObject({ lost: 4, doubled: 1 })
  books.close()
})
