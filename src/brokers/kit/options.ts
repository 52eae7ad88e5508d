import { oneOf } from '../../base/index.ts'
import type { EventFormat } from '../../message/index.ts'

/** What hapax does about a queue, a stream or a group before it uses it. The page of each broker says what that means there. */
export type DeclareOption = 'assert' | 'check' | 'none'

/** Checks the option `declare`. */
export function declareOption(value: DeclareOption | undefined, fallback: DeclareOption = 'assert'): DeclareOption {
  return oneOf('declare', ['assert', 'check', 'none'], value, fallback)
}

/** Checks the option `format`. */
export function formatOption(value: EventFormat | undefined): EventFormat {
  return oneOf('format', ['binary', 'structured'], value, 'binary')
}
