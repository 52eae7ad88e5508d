import type { KeyObject } from 'node:crypto'
import type { WebhookRequest } from '../../../contracts/index.ts'
import { contentOf } from './content.ts'
import { headersOf } from './headers.ts'
import { BAD_SIGNATURE, DAY_MS, missing, type Scheme, type Verdict } from './scheme.ts'
import {
  anyMatches,
  hmacs,
  isSecrets,
  onlyOptions,
  resendsOption,
  type SchemeOptions,
  type Secrets,
  textKeys,
} from './signatures.ts'

/** Options of `github`. */
export type GithubOptions = SchemeOptions

/**
 * GitHub. The id is the header `X-GitHub-Delivery`, which a redelivery repeats; the type is `X-GitHub-Event`. GitHub never sends again by
 * itself; people and scripts can ask it to for three days, on Enterprise Server for seven.
 */
export function github(given: GithubOptions | Secrets): Scheme {
  const options: GithubOptions = isSecrets(given) ? { secrets: given } : given
  onlyOptions('github', options)
  const keys = textKeys(options.secrets)
  return {
    name: 'github',
    resendsForMs: resendsOption(options.resendsForMs, 3 * DAY_MS),
    verify: (request) => verified(request, keys),
  }
}

function verified({ headers, body }: WebhookRequest, keys: readonly KeyObject[]): Verdict {
  for (const name of [SIGNATURE, ID, TYPE]) if (!headers.get(name)) return missing(name)
  const signatures = hmacs(keys, [body]).map((each) => `sha256=${each}`)
  if (!anyMatches([headers.get(SIGNATURE) ?? ''], signatures)) return BAD_SIGNATURE
  return {
    kind: 'verified',
    id: headers.get(ID) ?? undefined,
    type: headers.get(TYPE) ?? undefined,
    headers: headersOf(headers, KEPT),
    content: contentOf(body, headers.get('content-type')),
  }
}

const SIGNATURE = 'x-hub-signature-256'
const ID = 'x-github-delivery'
const TYPE = 'x-github-event'
const KEPT = [
  'x-github-hook-id',
  'x-github-hook-installation-target-id',
  'x-github-hook-installation-target-type',
  'x-github-enterprise-host',
] as const
