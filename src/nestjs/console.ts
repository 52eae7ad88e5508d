import {
  type DynamicModule,
  Inject,
  Injectable,
  Module,
  type ModuleMetadata,
  type OnModuleDestroy,
} from '@nestjs/common'
import { HttpAdapterHost } from '@nestjs/core'
import { expected, fieldOf } from '../base/index.ts'
import { type Console, type ConsoleHapax, type ConsoleOptions, createConsole } from '../console/index.ts'
import { toExpress, toFastify } from '../http/node/index.ts'
import { getHapaxToken } from './tokens.ts'

/** Options of `HapaxConsoleModule.forRoot`: those of `createConsole`. `basePath` is where it is mounted, `/hapax` by default. */
export type HapaxConsoleOptions = ConsoleOptions

/** What is said where the module is imported, not by a factory. */
export interface HapaxConsoleExtras {
  /** The name of the `HapaxModule` that it shows. @default 'default' */
  readonly hapax?: string
}

/** Options of `HapaxConsoleModule.forRootAsync`. */
export interface HapaxConsoleAsyncOptions extends HapaxConsoleExtras, Pick<ModuleMetadata, 'imports'> {
  readonly inject?: readonly (string | symbol | (new (...args: never[]) => unknown))[]
  // Nest calls it with what `inject` names: no type can say that.
  readonly useFactory: (...injected: never[]) => HapaxConsoleOptions | Promise<HapaxConsoleOptions>
}

const OPTIONS: unique symbol = Symbol('options of the console')
const HAPAX_OF_CONSOLE: unique symbol = Symbol('hapax of the console')

/** The console, mounted on the server of the application before any body parser; closed with the application. */
class MountedConsole implements OnModuleDestroy {
  readonly #console: Console

  constructor(hapax: ConsoleHapax, options: HapaxConsoleOptions, host: HttpAdapterHost) {
    const { basePath = '/hapax' } = options
    this.#console = createConsole(hapax, { ...options, basePath })
    mount(host.httpAdapter, basePath.replace(/\/$/, ''), this.#console.handler)
  }

  onModuleDestroy(): Promise<void> {
    return this.#console.close()
  }
}
Injectable()(MountedConsole)
Inject(HAPAX_OF_CONSOLE)(MountedConsole, undefined, 0)
Inject(OPTIONS)(MountedConsole, undefined, 1)
Inject(HttpAdapterHost)(MountedConsole, undefined, 2)

/** Mounts a handler on the framework below Nest. It is not among Nest's routes: its guards and global prefix are not for it. */
function mount(adapter: HttpAdapterHost['httpAdapter'], path: string, handler: Console['handler']): void {
  const type: unknown = adapter?.getType?.()
  if (type === 'express') adapter.use(path || '/', toExpress(handler))
  else if (type === 'fastify') {
    const server: unknown = adapter.getInstance()
    const route = toFastify(handler)
    for (const url of path === '' ? ['/*'] : [path, `${path}/*`]) Reflect.apply(allOf(server), server, [url, route])
  } else expected('the platform of the application', 'Express or Fastify', type)
}

/** Not of the types of Fastify: who uses Express does not have them. */
function allOf(server: unknown): (...args: unknown[]) => unknown {
  const all = fieldOf(server, 'all')
  return typeof all === 'function'
    ? (...args) => Reflect.apply(all, server, args)
    : expected('the server', 'Fastify', server)
}

/** The console in a Nest application, at `/hapax`: `HapaxConsoleModule.forRoot({ authorize })` beside the `HapaxModule`. */
// biome-ignore lint/complexity/noStaticOnlyClass: a module of Nest is a class.
export class HapaxConsoleModule {
  /** With these options. */
  static forRoot(options: HapaxConsoleOptions & HapaxConsoleExtras): DynamicModule {
    const { hapax, ...others } = options
    return moduleOf({ ...(hapax !== undefined && { hapax }), useFactory: () => others })
  }

  /** With options that a factory makes of what is injected: a service that knows who people are, for example. */
  static forRootAsync(options: HapaxConsoleAsyncOptions): DynamicModule {
    return moduleOf(options)
  }
}
Module({})(HapaxConsoleModule)

function moduleOf({ hapax, imports = [], inject = [], useFactory }: HapaxConsoleAsyncOptions): DynamicModule {
  return {
    module: HapaxConsoleModule,
    imports,
    providers: [
      { provide: OPTIONS, useFactory, inject: [...inject] },
      { provide: HAPAX_OF_CONSOLE, useExisting: getHapaxToken(hapax) },
      MountedConsole,
    ],
  }
}
