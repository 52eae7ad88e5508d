import { expected, fieldOf, flag, HapaxError, isHapaxError, noOthers, object, positiveInteger } from '../base/index.ts'
import type {
  ClaimHandler,
  Consumer,
  Handler,
  Http,
  HttpContext,
  Leased,
  LeasedHandler,
  SourceOptions,
  Store,
  Subscription,
  Worker,
} from '../contracts/index.ts'
import {
  type ConsumerOptions,
  createHapax,
  type Events,
  type HapaxOptions,
  type LeasedOptions,
  type WorkerOptions,
} from '../index.ts'
import { nestLogger } from './logger.ts'

/** A hapax of any store: what `createHapax` returns. */
export interface AnyHapax {
  readonly events: Events
  leased(name: string, options?: never): unknown
  worker(options: never): Worker
  close(): Promise<void>
}

/** A store of any kind. */
interface AnyStore {
  readonly features: { readonly name: string }
  close(): Promise<void>
}

/** Options of a consumer, and where it reads. */
export type HapaxConsumerOptions = (
  | ConsumerOptions<Handler<unknown, never>>
  | LeasedOptions<LeasedHandler<unknown, never> | ClaimHandler<unknown>>
) & {
  /** Where the messages come from, such as `rabbit.queue('billing')`. @default local delivery, and calls of `handle` only */
  readonly from?: Subscription
  /** How to read from there: prefetch, and what senders that know nothing of hapax call an id. @default as `consumer.from` does */
  readonly source?: SourceOptions
}

/** Options of the worker of a module: those of `hapax.worker`, without the consumers. */
export type HapaxWorkerOptions = Omit<WorkerOptions<never>, 'consume'>

/** Which of Nest's enhancers apply to the methods that take messages. */
export interface HapaxEnhancers {
  /** Whether guards decide about messages, global ones as well. @default true */
  readonly guards?: boolean
  /** Whether interceptors are around the methods, global ones as well. @default true */
  readonly interceptors?: boolean
}

/** What a `HapaxModule` takes beside its hapax. */
export interface HapaxModuleSettings {
  /** Whether to create or update the tables while the application starts. @default false */
  readonly migrate?: boolean
  /** What the worker does beside its consumers; false: this process only publishes and responds. @default a worker without a relay */
  readonly worker?: HapaxWorkerOptions | false
  /** Options of consumers, by name. @default each has the defaults, and reads from nowhere */
  readonly consumers?: Readonly<Record<string, HapaxConsumerOptions>>
  /**
   * How long running handlers may take once the application shuts down, before they are aborted. Rolling back and closing take up to ten
   * seconds more. @default 20_000
   */
  readonly shutdownMs?: number
  /** @default guards and interceptors apply */
  readonly enhancers?: HapaxEnhancers
}

/** A hapax of yours. The module closes it with the application. */
interface GivenHapax {
  readonly hapax: AnyHapax
}

/** Options of `createHapax`. The logger is Nest's unless another one is given. */
export type MadeHapax = Omit<HapaxOptions<never, never>, 'store'> & {
  readonly store: AnyStore
  readonly hapax?: undefined
}

/** Options of `HapaxModule.forRoot`, and what the factory of `forRootAsync` returns. */
export type HapaxModuleOptions = HapaxModuleSettings & (GivenHapax | MadeHapax)

/** What is said where the module is imported, not by a factory. */
export interface HapaxModuleExtras {
  /** Tells several modules apart, one per database: `@InjectHapax('audit')`. @default 'default' */
  readonly name?: string
  /** Whether all modules may inject the hapax without importing this one. @default true */
  readonly isGlobal?: boolean
}

/** What `forRootAsync({ useClass })` names. */
export interface HapaxOptionsFactory {
  createHapaxOptions(): HapaxModuleOptions | Promise<HapaxModuleOptions>
}

/** The settings with every default filled in. */
export interface Settings {
  readonly migrate: boolean
  readonly worker: HapaxWorkerOptions | false
  readonly consumers: ReadonlyMap<string, HapaxConsumerOptions>
  readonly shutdownMs: number
  readonly enhancers: Required<HapaxEnhancers>
}

const SETTINGS = [
  'migrate',
  'worker',
  'consumers',
  'shutdownMs',
  'enhancers',
] as const satisfies readonly (keyof HapaxModuleSettings)[]

/** Checks the settings and fills in the defaults. */
export function settingsOf(options: HapaxModuleOptions): Settings {
  object('options of HapaxModule', options)
  const { worker = {}, consumers = {}, enhancers = {} } = options
  if (worker !== false) object('worker', worker, 'an object with options of a worker, or false')
  if (fieldOf(worker, 'consume') !== undefined) expected('worker', 'options without consume: decorate methods', worker)
  object('consumers', consumers, 'an object with options by the name of a consumer')
  noOthers('enhancers', enhancers, ['guards', 'interceptors'])
  return {
    migrate: flag('migrate', options.migrate, false),
    worker,
    consumers: new Map(Object.entries(consumers)),
    shutdownMs: positiveInteger('shutdownMs', options.shutdownMs, 20_000),
    enhancers: {
      guards: flag('enhancers.guards', enhancers.guards, true),
      interceptors: flag('enhancers.interceptors', enhancers.interceptors, true),
    },
  }
}

/** The hapax that was given, or one that is made with the options. */
export function hapaxOf(options: HapaxModuleOptions): AnyHapax {
  object('options of HapaxModule', options)
  const { hapax: given, ...rest } = options
  const others = Object.fromEntries(Object.entries(rest).filter(([name]) => !SETTINGS.some((each) => each === name)))
  for (const each of relaysOf(options)) refuseUsed('the relay', each)
  if (given === undefined) return make({ logger: nestLogger(), ...others })
  noOthers('options of HapaxModule', options, ['hapax', ...SETTINGS])
  refuseUsed('hapax', given)
  // Its consumers are those of one application.
  used.add(given)
  return given
}

/** What belonged to an application, which closes it: it does not open again. */
const used = new WeakSet<object>()

/** Remembers what an application has closed. */
export function closed(options: HapaxModuleOptions): void {
  for (const each of [fieldOf(options, 'store'), ...relaysOf(options)]) if (isObject(each)) used.add(each)
}

/**
 * Throws if the store was closed with an earlier application. One on a pool of the user's is as good as before. Whatever else is wrong
 * with it is reported by what uses it: tables that are missing may be about to be created.
 */
export async function refuseClosedStore(options: HapaxModuleOptions, hapax: OpenHapax): Promise<void> {
  const store = fieldOf(options, 'store')
  if (!isObject(store) || !used.has(store)) return
  try {
    await hapax.status()
  } catch (error) {
    if (isHapaxError(error, 'closed')) throw usedBefore('store', error)
  }
}

function relaysOf({ worker }: HapaxModuleOptions): readonly unknown[] {
  return [fieldOf(worker, 'relay'), ...Object.values(fieldOf(worker, 'relays') ?? {})]
}

function refuseUsed(what: string, given: unknown): void {
  if (isObject(given) && used.has(given)) throw usedBefore(what)
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function usedBefore(what: string, cause?: unknown): HapaxError {
  const message = `expected ${what} to be new for each application, got that of an earlier one, which closes it`
  return new HapaxError('invalid-option', `${message}: make it in HapaxModule.forRootAsync({ useFactory })`, { cause })
}

/** The options are checked by `createHapax`, with the kind of store that they name. */
function make(options: object): AnyHapax {
  return createHapax(options as Parameters<typeof createHapax<Store<unknown, unknown>>>[0])
}

/** A hapax of any store, as the module uses it. Which options fit it is checked by hapax itself. */
export interface OpenHapax {
  /** Undefined on a store that only has claims. */
  consumer?(name: string, options: object): Consumer<unknown>
  leased(name: string, options: object): Leased<unknown>
  http(scope: string, options: object): Http<HttpContext<unknown>>
  worker(options: object): Worker
  /** Undefined where there are no tables. */
  migrate?(): Promise<unknown>
  status(): Promise<unknown>
  close(): Promise<void>
}

/** The same hapax, with what the module needs of it. */
export function opened(hapax: AnyHapax): OpenHapax {
  return isOpen(hapax) ? hapax : expected('hapax', 'what createHapax returned', hapax)
}

function isOpen(hapax: unknown): hapax is OpenHapax {
  return ['leased', 'worker', 'http', 'status', 'close'].every((name) => typeof fieldOf(hapax, name) === 'function')
}
