import { type Clock, HapaxError, within } from '../../base/index.ts'
import type { ClientSource, RawClient, Word } from './client.ts'
import { asking, type Detour } from './detour.ts'
import { brokerError, connectError, late, refusal, unavailable } from './errors.ts'

/** A reply of Redis. Strings are buffers. */
export type Reply = Buffer | string | number | null | Error | readonly Reply[]

/** The elements of a reply that is a list; none for any other reply. */
export function listOf(reply: Reply | undefined): readonly Reply[] {
  return Array.isArray(reply) ? reply : []
}

/** How links are made. */
export interface LinkOptions {
  readonly clients: ClientSource
  /** What the link is for: in a cluster, one server has it. */
  readonly stream: string
  /** Where the stream is while a cluster moves it. */
  readonly detour: Detour
  /** How long Redis may take to answer. */
  readonly timeoutMs: number
  readonly clock: Clock
}

/** One connection to Redis. It never reconnects: after a loss, a new link is opened. */
export class Link {
  readonly #client: RawClient
  readonly #detour: Detour
  readonly #clock: Clock
  readonly #timeoutMs: number
  /** Rejects the calls that wait for a reply. */
  readonly #waiting = new Set<(error: HapaxError) => void>()
  #lost: HapaxError | undefined
  /** Called once when the link is lost, but not when it is closed here. */
  onLost: (error: HapaxError) => void = () => {}

  private constructor(client: RawClient, { clock, detour, timeoutMs }: LinkOptions) {
    this.#client = client
    this.#detour = detour
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    client.onEnd((error) => this.fail(unavailable(error)))
  }

  /** Connects, and checks that Redis replies. */
  static async open(options: LinkOptions): Promise<Link> {
    const { clients, clock, detour, stream, timeoutMs } = options
    const { place } = detour
    const client = await clients.open(timeoutMs, stream, place).catch((error: unknown) => {
      throw brokerError(error)
    })
    const link = new Link(place === undefined ? client : asking(client, stream, clock), options)
    try {
      await within(clock, timeoutMs, client.connect(), () => {
        throw late(timeoutMs)
      })
      await link.call(['PING'])
      if (client.database !== '0') await link.call(['SELECT', client.database])
      return link
    } catch (error) {
      link.close()
      throw connectError(error, clients.at)
    }
  }

  get lost(): boolean {
    return this.#lost !== undefined
  }

  /** Sends a command. If no reply comes within the timeout plus `extraMs`, the link is given up as dead. */
  call(words: readonly Word[], extraMs = 0): Promise<Reply> {
    return this.#answer(this.#send(words), this.#timeoutMs + extraMs)
  }

  /** Sends commands in one go, with no others between them. Resolves with all replies in order; error replies are among them. */
  async callAll(commands: readonly (readonly Word[])[], extraMs = 0): Promise<readonly Reply[]> {
    let answers: Promise<Reply>[] = []
    this.#client.together(() => {
      answers = commands.map((words) => this.#send(words))
    })
    const replies = await this.#answer(settledInTurn(answers), this.#timeoutMs + extraMs)
    for (const reply of replies) if (reply instanceof HapaxError) this.#heed(reply)
    return replies
  }

  /** Gives the link up and rejects all calls that wait for a reply. `reply` may name another server for the next link. */
  fail(error: HapaxError, reply = ''): void {
    if (this.#lost !== undefined) return
    this.#detour.follow(reply)
    this.#end(error)
  }

  #end(error: HapaxError): void {
    if (this.#lost !== undefined) return
    this.#lost = error
    this.#client.end()
    for (const reject of this.#waiting) reject(error)
    this.#waiting.clear()
    this.onLost(error)
  }

  close(): void {
    this.onLost = () => {}
    this.#end(new HapaxError('broker-unavailable', 'the link to Redis was closed'))
  }

  /** The one cast: the clients are set up for RESP 2 with buffers, so their replies have this type. */
  #send(words: readonly Word[]): Promise<Reply> {
    return this.#client.send(words) as Promise<Reply>
  }

  #answer<T>(answer: Promise<T>, ms: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const cancel = this.#clock.after(ms, () => this.fail(late(ms)))
      const fail = (error: HapaxError): void => {
        cancel()
        reject(error)
      }
      const done = (): boolean => {
        cancel()
        return this.#waiting.delete(fail)
      }
      if (this.#lost !== undefined) fail(this.#lost)
      else this.#waiting.add(fail)
      answer.then(
        (reply) => done() && resolve(reply),
        (error: unknown) => done() && reject(this.#failure(error)),
      )
    })
  }

  /** Tells an error reply from the loss of the link. */
  #failure(error: unknown): HapaxError {
    const refused = refusal(error)
    if (refused === undefined) {
      const lost = unavailable(error)
      this.fail(lost)
      return lost
    }
    this.#heed(refused)
    return refused
  }

  /** This server is not, or no longer, the one that has the stream. The next link may find it. */
  #heed(refused: HapaxError): void {
    if (ELSEWHERE.has(refused.fields['reply'])) this.fail(refused, refused.message)
  }
}

const ELSEWHERE: ReadonlySet<unknown> = new Set(['READONLY', 'NOREPLICAS', 'MASTERDOWN', 'MOVED', 'ASK', 'CLUSTERDOWN'])

/** Waits for all replies. Rejects only if the link was lost. */
async function settledInTurn(answers: readonly Promise<Reply>[]): Promise<readonly Reply[]> {
  const settled = await Promise.allSettled(answers)
  return settled.map((each) => {
    if (each.status === 'fulfilled') return each.value
    const refused = refusal(each.reason)
    if (refused === undefined) throw each.reason
    return refused
  })
}
