import { randomUUID } from 'node:crypto'
import { type DynamicModule, Module } from '@nestjs/common'
import { silentLogger } from '../base/index.ts'
import type { Destination, Outcome } from '../contracts/index.ts'
import { isJson, isTextual, type Message, type MessageType, type OutgoingMessage } from '../message/index.ts'
import { memory } from '../stores/memory/index.ts'
import { HapaxModule } from './module.ts'
import type { HapaxModuleExtras, HapaxModuleSettings, MadeHapax } from './options.ts'
import type { HapaxRunner } from './runner.ts'
import { getRunnerToken } from './tokens.ts'

/** Options of `HapaxTestingModule.forRoot`: those of `HapaxModule.forRoot`, without a worker. */
export type HapaxTestingOptions = Omit<HapaxModuleSettings, 'worker'> &
  Partial<Omit<MadeHapax, 'hapax'>> &
  HapaxModuleExtras

/** What a delivery may say of its message. */
export interface DeliverOptions {
  /** @default a new one */
  readonly id?: string
  /** @default '/test' */
  readonly source?: string
}

/** Delivers messages to the handlers of an application under test, and shows what was published. */
export class HapaxTesting {
  readonly #runner: HapaxRunner
  readonly #published: readonly Message[]

  constructor(runner: HapaxRunner, published: readonly Message[]) {
    this.#runner = runner
    this.#published = published
  }

  /** Delivers a message to a consumer. Resolves with what became of it; a handler's error is in there. */
  deliver<In>(
    consumer: string,
    type: MessageType<In, unknown>,
    data: In,
    options: DeliverOptions = {},
  ): Promise<Outcome> {
    const { id = randomUUID(), source = '/test' } = options
    return this.#runner.consumer(consumer).handle({ id, source, type: type.type, data })
  }

  /** Delivers a message, and once more after that, as brokers do: `processed` and `duplicate`. */
  async deliverTwice<In>(
    consumer: string,
    type: MessageType<In, unknown>,
    data: In,
    options: DeliverOptions = {},
  ): Promise<readonly [Outcome, Outcome]> {
    const same = { id: randomUUID(), ...options }
    return [await this.deliver(consumer, type, data, same), await this.deliver(consumer, type, data, same)]
  }

  /** Waits until nothing is due: retries, local delivery, and what was published. */
  async drain(): Promise<void> {
    await this.#runner.worker?.drain()
  }

  /** What was published and committed, oldest first; of one type, if one is given. Not with `delivery: 'local'`, where handlers take it. */
  async published(type?: MessageType<never, unknown>): Promise<readonly Message[]> {
    await this.drain()
    return this.#published.filter((message) => type === undefined || message.type === type.type)
  }
}

/**
 * `HapaxModule` for tests: on the memory store, or on the `store` that is given, with a worker whose relay keeps what was published.
 * Inject `HapaxTesting` to deliver messages.
 */
// biome-ignore lint/complexity/noStaticOnlyClass: a module of Nest is a class.
export class HapaxTestingModule {
  static forRoot(options: HapaxTestingOptions = {}): DynamicModule {
    const published: Message[] = []
    const given = { store: memory(), source: '/test', logger: silentLogger, migrate: true, ...options }
    const hapax = HapaxModule.forRoot({ ...given, worker: { relay: keeping(published) } })
    const useFactory = (runner: HapaxRunner): HapaxTesting => new HapaxTesting(runner, published)
    return {
      module: HapaxTestingModule,
      global: true,
      imports: [hapax],
      providers: [{ provide: HapaxTesting, useFactory, inject: [getRunnerToken(options.name)] }],
      exports: [HapaxTesting, hapax],
    }
  }
}
Module({})(HapaxTestingModule)

/** Where the relay sends: a list. */
function keeping(list: Message[]): Destination {
  return {
    name: 'what was published',
    features: { keepsOrder: true },
    prepare: async () => {},
    publish: (messages, _, settle) => {
      for (const [index, message] of messages.entries()) {
        list.push({ ...message, data: dataOf(message) })
        settle(index, { status: 'confirmed' })
      }
    },
    close: async () => {},
  }
}

function dataOf({ data, datacontenttype }: OutgoingMessage): unknown {
  const text = (): string => Buffer.from(data).toString()
  if (isTextual(datacontenttype)) return text()
  if (!isJson(datacontenttype)) return data
  return data.length === 0 ? undefined : JSON.parse(text())
}
