import type { KeyObject } from 'node:crypto'
import type { WebhookRequest } from '../../../contracts/index.ts'
import type { Scheme, Verdict } from './scheme.ts'
import {
  isSecrets,
  onlyOptions,
  resendsOption,
  type Secrets,
  type TimedSchemeOptions,
  textKeys,
  toleranceOption,
} from './signatures.ts'

/** The preset of a provider that signs a time with the body: its options are checked, and `verify` gets what they mean. */
export function timedScheme(
  name: string,
  given: TimedSchemeOptions | Secrets,
  resendsForMs: number,
  verify: (request: WebhookRequest, keys: readonly KeyObject[], toleranceMs: number) => Verdict,
): Scheme {
  const options: TimedSchemeOptions = isSecrets(given) ? { secrets: given } : given
  onlyOptions(name, options, ['toleranceMs'])
  const [keys, toleranceMs] = [textKeys(options.secrets), toleranceOption(options.toleranceMs)]
  return {
    name,
    resendsForMs: resendsOption(options.resendsForMs, resendsForMs),
    verify: (request) => verify(request, keys, toleranceMs),
  }
}
