// Decorators without their syntax, which Node.js cannot strip.
import { Inject, Injectable, type Type } from '@nestjs/common'

type Decorate = (target: object, key: string, descriptor: TypedPropertyDescriptor<never>) => unknown

/** Makes a class injectable: `@Injectable()`, `@Inject(token)` on its parameters, and decorators on its methods. */
export function provided<C extends Type>(
  target: C,
  { inject = [], methods = {} }: { inject?: readonly unknown[]; methods?: Record<string, readonly unknown[]> },
): C {
  Injectable()(target)
  for (const [index, token] of inject.entries()) Inject(token as symbol)(target, undefined, index)
  for (const [name, decorators] of Object.entries(methods)) decorateMethod(target, name, decorators)
  return target
}

/** Applies decorators to a method, the last one first. */
function decorateMethod(target: Type, name: string, decorators: readonly unknown[]): void {
  const descriptor = Object.getOwnPropertyDescriptor(target.prototype, name) as TypedPropertyDescriptor<never>
  for (const decorate of decorators.toReversed()) (decorate as Decorate)(target.prototype, name, descriptor)
  // Some put another function in its place.
  Object.defineProperty(target.prototype, name, descriptor)
}
