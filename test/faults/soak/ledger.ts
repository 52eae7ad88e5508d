import { createConnection } from 'mysql2/promise'
import type { Place } from '../../support/databases.ts'
import { pgPool } from '../../support/pg-pool.ts'

// Nothing here knows hapax: the tables of the soak, and a plain connection to them.

type Row = Readonly<Record<string, unknown>>

/** A plain connection to the tables of a soak. */
export interface Ledger {
  query(text: string): Promise<readonly Row[]>
  close(): Promise<void>
}

/** The tables of a soak, by the names that a place gives them. */
export interface LedgerTables {
  /** The last number of each key; its row is locked while a message of the key is published. */
  readonly keys: string
  /** What was published, written in the transaction that published it. */
  readonly sent: string
  /** What handlers did; no key of it is unique. */
  readonly effects: string
  /** What was done to the processes, and when. */
  readonly faults: string
  /** What hapax has not sent. */
  readonly outbox: string
  /** What hapax has not finished. */
  readonly inbox: string
  /** What hapax has given up. */
  readonly failed: string
}

export function ledgerTables({ store, url, schema }: Place): LedgerTables {
  const folder = store === 'postgres' ? schema : new URL(url).pathname.slice(1)
  const name = (table: string): string => `${folder}.soak_${table}`
  const ofHapax = (table: string): string => (store === 'postgres' ? `${folder}.${table}` : `${folder}.hapax_${table}`)
  return {
    keys: name('keys'),
    sent: name('sent'),
    effects: name('effects'),
    faults: name('faults'),
    outbox: ofHapax('outbox'),
    inbox: ofHapax('inbox'),
    failed: ofHapax('failed'),
  }
}

export async function openLedger({ store, url }: Place): Promise<Ledger> {
  if (store === 'postgres') {
    const pool = pgPool({ connectionString: url, max: 2 })
    return { query: async (text) => (await pool.query(text)).rows, close: () => pool.end() }
  }
  // Without a database of its own it is not taken for a connection of hapax, and is not cut.
  const plain = new URL(url)
  plain.pathname = ''
  const client = await createConnection(plain.href)
  client.on('error', () => {})
  return { query: async (text) => (await client.query(text))[0] as unknown as Row[], close: () => client.end() }
}

export async function createTables(ledger: Ledger, place: Place, keys: number): Promise<void> {
  const { keys: numbers, sent, effects, faults } = ledgerTables(place)
  const { now, serial } = dialects[place.store as keyof typeof dialects]
  const word = 'varchar(40) not null'
  const at = `at double precision not null default (${now})`
  await ledger.query(`create table ${numbers} (name ${word} primary key, n integer not null)`)
  await ledger.query(`create table ${sent} (id ${word} primary key, name ${word}, n integer not null,
    copies integer not null default 0, ${at})`)
  await ledger.query(`create table ${effects} (${serial}, id ${word}, name ${word}, n integer not null,
    seen integer not null, worker integer not null, ${at})`)
  await ledger.query(`create index soak_seen on ${effects} (name, n)`)
  await ledger.query(`create table ${faults} (kind ${word}, worker integer not null, ${at})`)
  const rows = Array.from({ length: keys }, (_, key) => `('${keyName(key)}', 0)`)
  await ledger.query(`insert into ${numbers} (name, n) values ${rows.join(', ')}`)
}

export function keyName(key: number): string {
  return `key-${key}`
}

/** Milliseconds of the database's clock, and a number that rises with every insert. */
const dialects = {
  postgres: {
    now: 'extract(epoch from clock_timestamp()) * 1000',
    serial: 'serial bigint generated always as identity',
  },
  mysql: { now: 'unix_timestamp(sysdate(6)) * 1000', serial: 'serial bigint not null auto_increment, key (serial)' },
}
