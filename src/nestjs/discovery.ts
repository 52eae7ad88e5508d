import type { DiscoveryService, MetadataScanner } from '@nestjs/core'
import { HapaxError } from '../base/index.ts'
import { type Marked, marksOf } from './decorators.ts'
import type { Method } from './pipeline.ts'

/** A method that a decorator marked, on an instance. */
export interface Found extends Marked, Method {
  /** For people: `BillingService.onOrder of AppModule`. */
  readonly label: string
}

type Wrapper = ReturnType<DiscoveryService['getProviders']>[number]

/** All methods with `@OnMessage` and its sisters, of providers and controllers, for whichever hapax. */
export function discover(discovery: DiscoveryService, scanner: MetadataScanner): readonly Found[] {
  const seen = new Set<unknown>()
  return [...discovery.getProviders(), ...discovery.getControllers()].flatMap((wrapper) => {
    const instance: unknown = wrapper.instance
    // A provider may be known by several tokens.
    if (typeof instance !== 'object' || instance === null || seen.has(instance)) return []
    seen.add(instance)
    const found = methodsOf(instance, wrapper, scanner)
    if (found[0] !== undefined) refuseScoped(found[0], wrapper)
    return found
  })
}

function methodsOf(instance: object, wrapper: Wrapper, scanner: MetadataScanner): readonly Found[] {
  const prototype: unknown = Object.getPrototypeOf(instance)
  if (typeof prototype !== 'object' || prototype === null) return []
  return scanner.getAllMethodNames(prototype).flatMap((name) => {
    const method: unknown = Reflect.get(prototype, name)
    if (!isMethod(method)) return []
    return marksOf(method).map((marked) => ({
      ...marked,
      instance,
      name,
      label: labelOf(instance, name, wrapper),
      method,
    }))
  })
}

/** Made for marked methods only: providers may be objects of any kind, also without a constructor. */
function labelOf(instance: object, name: string, { host }: Wrapper): string {
  return `${instance.constructor.name}.${name} of ${host?.metatype?.name ?? 'an unknown module'}`
}

function isMethod(value: unknown): value is Method['method'] {
  return typeof value === 'function'
}

/** Guards and interceptors of a request would be left out silently, and the fields of such an instance be empty. */
function refuseScoped({ label }: Found, wrapper: Wrapper): void {
  if (!wrapper.isTransient && wrapper.isDependencyTreeStatic()) return
  const what = `expected the provider of ${label} to be a singleton, got one that is transient or depends on a request`
  throw new HapaxError('invalid-option', `${what}: a message has no request`)
}
