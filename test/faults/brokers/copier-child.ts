import { setTimeout as delay } from 'node:timers/promises'
import { endWithParent, job, say } from '../../support/child.ts'
import type { Place } from '../../support/databases.ts'
import { ledgerTables, openLedger } from '../soak/ledger.ts'
import { copiedIds } from '../soak/plan.ts'
import { type BrokerPlace, type PlainMessage, stubborn } from './broker-place.ts'

// Shares no code with hapax: somebody who sends straight to the broker what a publisher has published.

/** Which share of the messages it sends once more. */
export interface CopierJob {
  readonly place: Place
  readonly broker: BrokerPlace
  readonly seed: number
  readonly messages: number
  readonly copies: number
}

/** What it says when all of them are sent. */
export interface CopierReport {
  readonly copies: number
}

endWithParent()
const { place, broker, ...plan } = job<CopierJob>()
const AT_ONCE = 50
const { sent } = ledgerTables(place)
const ledger = await openLedger(place)
const client = stubborn(broker)
const wanted = copiedIds(plan)
const report: CopierReport = { copies: wanted.length }

while (wanted.length > 0) {
  const found = await published(wanted.slice(0, AT_ONCE))
  if (found.length === 0) await delay(50)
  else await copy(found)
}
await say(report)
await client.close()
await ledger.close()
process.disconnect()

type Found = { readonly id: string; readonly message: PlainMessage }

/** Those that a publisher has committed, whether or not a relay has sent them yet. */
async function published(ids: readonly string[]): Promise<Found[]> {
  const list = ids.map((id) => `'${id}'`).join(', ')
  const rows = await ledger.query(`select id, name, n from ${sent} where id in (${list})`)
  return rows.map(({ id, name, n }) => ({
    id: String(id),
    message: {
      attributes: { specversion: '1.0', id: String(id), source: '/soak', type: 'entry', partitionkey: String(name) },
      body: JSON.stringify({ key: name, n: Number(n) }),
    },
  }))
}

async function copy(found: readonly Found[]): Promise<void> {
  await client.send(found.map(({ message }) => message))
  const list = found.map(({ id }) => `'${id}'`).join(', ')
  await ledger.query(`update ${sent} set copies = copies + 1 where id in (${list})`)
  for (const { id } of found) wanted.splice(wanted.indexOf(id), 1)
}
