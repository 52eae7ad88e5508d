// Runs messenger.php: Symfony's own sender, worker and serializer.

import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { symfony } from '../../../scripts/services/symfony.ts'
import { requireServer } from '../servers.ts'

/** Why Symfony does not run here. */
export const noSymfony: string | undefined =
  symfony.find() === undefined ? `Symfony is not installed (Debian: ${symfony.debianPackages.join(' ')})` : undefined

export interface Order {
  readonly eventId: string
  readonly orderId: string
  readonly amount: number
}

/** Where Symfony finds the id of a message. */
export interface MessengerJob {
  readonly queue?: string
  readonly idFrom?: 'data' | 'stamp' | 'property'
  /** What the header `type` has instead of the class. */
  readonly name?: string
  readonly orders?: readonly Order[]
  /** The database of the worker. */
  readonly url?: string
  /** When the worker ends: when the queue is empty, after so many messages, or never. @default 'idle' */
  readonly until?: 'idle' | 'stopped' | number
  readonly delayMs?: number
}

/** What the program has said: one of these at a time. */
export interface Said {
  readonly handled?: string
  readonly duplicate?: string
  readonly failing?: string
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

export class Messenger {
  readonly said: Said[] = []
  /** The exit code, and what was written to standard error. */
  readonly ended: Promise<{ readonly code: number | null; readonly errors: string }>
  readonly #child: ChildProcess
  #errors = ''

  constructor(command: 'send' | 'work' | 'encode', { url, ...job }: MessengerJob) {
    const broker = new URL(requireServer('rabbitmq'))
    const login = `${broker.username || 'guest'}:${broker.password || 'guest'}`
    const dsn = `amqp://${login}@${broker.hostname}:${broker.port || '5672'}/%2f/messages`
    const text = JSON.stringify({ ...job, broker: dsn, ...(url !== undefined && { database: pdo(url) }) })
    const program = fileURLToPath(new URL('./messenger.php', import.meta.url))
    this.#child = spawn(symfony.find()?.from ?? 'php', [program, command, text], { stdio: ['ignore', 'pipe', 'pipe'] })
    this.#child.stderr?.on('data', (chunk) => {
      this.#errors += String(chunk)
    })
    const lines = createInterface({ input: this.#child.stdout as NonNullable<ChildProcess['stdout']> })
    lines.on('line', (line) => {
      // Warnings of PHP go to standard output as well.
      if (line.startsWith('{')) this.said.push(JSON.parse(line))
      else this.#errors += `${line}\n`
    })
    this.ended = new Promise((resolve, reject) => {
      this.#child.on('error', reject)
      this.#child.on('close', (code) => resolve({ code, errors: this.#errors }))
    })
    this.ended.catch(() => {})
    onTestFinished(() => void this.kill())
  }

  /** What it said of this kind. */
  all<Name extends keyof Said>(name: Name): NonNullable<Said[Name]>[] {
    return this.said.flatMap((each) => (each[name] === undefined ? [] : [each[name]])) as NonNullable<Said[Name]>[]
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }
}

/** Runs the program to its end, and returns what it said. */
export async function messenger(command: 'send' | 'work' | 'encode', job: MessengerJob): Promise<Messenger> {
  const program = new Messenger(command, job)
  const { code, errors } = await program.ended
  if (code !== 0) throw new Error(`messenger.php ${command} ended with ${code}: ${errors}`)
  return program
}

function pdo(url: string): string {
  const { hostname, port, pathname, username, password } = new URL(url)
  const parts = { host: hostname, port: port || '5432', dbname: pathname.slice(1), user: username, password }
  const given = Object.entries(parts).filter(([, value]) => value !== '')
  return `pgsql:${given.map(([name, value]) => `${name}=${decodeURIComponent(value)}`).join(';')}`
}
