import { type Clock, HapaxError, within } from '../../base/index.ts'
import type { ClientSource, RawClient, Word } from './client.ts'
import { brokerError, connectError, late, refusal, unavailable } from './errors.ts'

/** An answer of Redis: texts are bytes. */
export type Reply = Buffer | string | number | null | Error | readonly Reply[]

/** The elements of an answer that is a list; none where it is something else. */
export function listOf(reply: Reply | undefined): readonly Reply[] {
  return Array.isArray(reply) ? reply : []
}

/** How links are made. */
export interface LinkOptions {
  readonly clients: ClientSource
  /** How long Redis may take to answer. */
  readonly timeoutMs: number
  readonly clock: Clock
}

/** One connection to Redis. It is never repaired: whoever finds it lost opens another one. */
export class Link {
  readonly #client: RawClient
  readonly #clock: Clock
  readonly #timeoutMs: number
  /** Whoever waits for an answer. */
  readonly #waiting = new Set<(error: HapaxError) => void>()
  #lost: HapaxError | undefined
  /** Called once, when the link is lost; not when it is closed here. */
  onLost: (error: HapaxError) => void = () => {}

  private constructor(client: RawClient, { clock, timeoutMs }: LinkOptions) {
    this.#client = client
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    client.onEnd((error) => this.fail(unavailable(error)))
  }

  /** Connects, and makes sure that Redis answers. */
  static async open(options: LinkOptions): Promise<Link> {
    const client = await options.clients.open(options.timeoutMs).catch((error: unknown) => {
      throw brokerError(error)
    })
    const link = new Link(client, options)
    try {
      await within(options.clock, options.timeoutMs, client.connect(), () => {
        throw late(options.timeoutMs)
      })
      await link.call(['PING'])
      if (client.database !== '0') await link.call(['SELECT', client.database])
      return link
    } catch (error) {
      link.close()
      throw connectError(error, options.clients.at)
    }
  }

  get lost(): boolean {
    return this.#lost !== undefined
  }

  /** Sends a command. An answer that takes longer than the deadline (and than `extraMs`) means that the link is dead. */
  call(words: readonly Word[], extraMs = 0): Promise<Reply> {
    return this.#answer(this.#send(words), this.#timeoutMs + extraMs)
  }

  /** Sends commands in one go, with nobody else's between them. All answers, in turn; errors of Redis stand among them. */
  async callAll(commands: readonly (readonly Word[])[], extraMs = 0): Promise<readonly Reply[]> {
    let answers: Promise<Reply>[] = []
    this.#client.together(() => {
      answers = commands.map((words) => this.#send(words))
    })
    const replies = await this.#answer(settledInTurn(answers), this.#timeoutMs + extraMs)
    for (const reply of replies) if (reply instanceof HapaxError) this.#heed(reply)
    return replies
  }

  /** Gives the link up: whoever waits for an answer learns that there will be none. */
  fail(error: HapaxError): void {
    if (this.#lost !== undefined) return
    this.#lost = error
    this.#client.end()
    for (const reject of this.#waiting) reject(error)
    this.#waiting.clear()
    this.onLost(error)
  }

  close(): void {
    this.onLost = () => {}
    this.fail(new HapaxError('broker-unavailable', 'the link to Redis was closed'))
  }

  /** The clients are set up to speak RESP 2 and to give texts as bytes: their answers are of this type. */
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

  /** An error that Redis answered, or the end of the link. */
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

  /** This server was the primary once: the next link may find the one that is it now. */
  #heed(refused: HapaxError): void {
    if (refused.fields['reply'] === 'READONLY') this.fail(refused)
  }
}

/** Rejects only if the link was lost. */
async function settledInTurn(answers: readonly Promise<Reply>[]): Promise<readonly Reply[]> {
  const settled = await Promise.allSettled(answers)
  return settled.map((each) => {
    if (each.status === 'fulfilled') return each.value
    const refused = refusal(each.reason)
    if (refused === undefined) throw each.reason
    return refused
  })
}
