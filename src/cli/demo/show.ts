import { shellWord } from '../../base/index.ts'
import { type Io, line, paint } from '../io/io.ts'
import { count, cut, plural } from '../io/text.ts'
import { PROGRAM } from '../store.ts'
import type { Audit } from './shop.ts'

/** The progress of a run. */
export interface Progress {
  readonly messages: number
  readonly sent: number
  readonly invoices: number
  readonly duplicates: number
  readonly retried: number
  readonly kills: number
}

/** The result of a run. `lost` and `doubled` are counted in the tables; the other numbers were reported by the processes. */
export interface Result extends Omit<Audit, 'orders'> {
  readonly seed: number
  readonly sent: number
  readonly delivered: number
  readonly duplicates: number
  readonly retried: number
  readonly kills: number
  readonly seconds: number
  readonly store: string
  readonly exampleId: string
}

const PLAIN_EVERY_MS = 2500

/** Shows a run to people: one line that is rewritten on a terminal, a few lines elsewhere. */
export class Show {
  readonly #io: Io
  readonly #on: boolean
  #last = performance.now()

  constructor(io: Io, on: boolean) {
    this.#io = io
    this.#on = on
  }

  begin({ messages, kills, seed }: { messages: number; kills: number; seed: number }): void {
    if (!this.#on) return
    const io = this.#io
    line(io, `${paint(io, 'bold', 'hapax demo')}: ${plural(messages, 'order')} through a shop on SQLite (seed ${seed})`)
    line(io)
    line(io, '  orders   writes each order and its message in one transaction')
    line(io, '  relay    moves committed messages to the broker')
    line(io, '  broker   delivers a third of them twice, and redelivers what was not acknowledged')
    line(io, `  billing  writes one invoice per order; one call in six throws; killed ${times(kills)}`)
    line(io)
  }

  progress(progress: Progress): void {
    if (!this.#on) return
    const { out } = this.#io
    const text = sentence(progress)
    if (out.isTTY) out.write(`\r\x1b[2K${cut(text, (out.columns ?? 80) - 1)}`)
    else if (performance.now() - this.#last >= PLAIN_EVERY_MS) {
      this.#last = performance.now()
      line(this.#io, text)
    }
  }

  end(result: Result): void {
    const io = this.#io
    if (io.out.isTTY) io.out.write('\r\x1b[2K')
    for (const [name, value, remark] of rows(result)) {
      line(io, `  ${name.padEnd(20)} ${count(value).padStart(7)}   ${paint(io, 'dim', remark)}`)
    }
    line(io)
    this.#verdict('lost', result.lost, 'orders without an invoice or its message')
    this.#verdict('doubled', result.doubled, 'orders with a second invoice or message')
    line(io)
    line(io, `Counted in the tables themselves, after ${result.seconds.toFixed(1)} seconds. Look at them:`)
    line(io)
    line(io, `  ${PROGRAM} status --store ${shellWord(result.store)}`)
    line(io, `  ${PROGRAM} explain ${result.exampleId} --store ${shellWord(result.store)}`)
  }

  #verdict(name: string, value: number, remark: string): void {
    const io = this.#io
    const text = `  ${name.padEnd(20)} ${count(value).padStart(7)}`
    line(io, `${paint(io, 'bold', paint(io, value === 0 ? 'green' : 'red', text))}   ${paint(io, 'dim', remark)}`)
  }
}

function rows(result: Result): [name: string, value: number, remark: string][] {
  const rows: [string, number, string][] = [
    ['sent', result.sent, 'orders committed, each with its message'],
    ['delivered', result.delivered, 'times a message was handed to billing'],
    ['duplicates blocked', result.duplicates, 'deliveries that changed nothing'],
    ['retried', result.retried, 'calls that threw, rolled back, tried again'],
    ['worker kills', result.kills, 'SIGKILL while invoices were being written'],
    ['invoices', result.invoices, 'rows in the table'],
  ]
  if (result.failed > 0) rows.push(['failed', result.failed, 'given up and kept: see hapax failed list'])
  return rows
}

function sentence({ messages, sent, invoices, duplicates, retried, kills }: Progress): string {
  const parts = [
    `${count(sent)} of ${count(messages)} sent`,
    `${count(invoices)} invoiced`,
    `${plural(duplicates, 'duplicate')} blocked`,
    `${count(retried)} retried`,
    plural(kills, 'kill'),
  ]
  return parts.join(' · ')
}

function times(value: number): string {
  return value === 1 ? 'once' : `${value} times`
}
