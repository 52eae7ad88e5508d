import { Inject } from '@nestjs/common'
import { nameText } from '../base/index.ts'

/** The name of a `HapaxModule` that was given none. */
export const DEFAULT_NAME = 'default'

/** The token of the hapax of a `HapaxModule`. */
export const HAPAX: unique symbol = Symbol.for('hapax:default')

/** The token of the hapax of the `HapaxModule` of this name; `HAPAX` without one. */
export function getHapaxToken(name: string = DEFAULT_NAME): symbol {
  return Symbol.for(`hapax:${nameText('name', name)}`)
}

/** The token of the `HapaxRunner` of the `HapaxModule` of this name. */
export function getRunnerToken(name: string = DEFAULT_NAME): symbol {
  return Symbol.for(`hapax-runner:${nameText('name', name)}`)
}

/** Injects the hapax of the module of this name: `constructor(@InjectHapax() private readonly hapax: Hapax<PgTransaction>)`. */
export function InjectHapax(name?: string): PropertyDecorator & ParameterDecorator {
  return Inject(getHapaxToken(name))
}
