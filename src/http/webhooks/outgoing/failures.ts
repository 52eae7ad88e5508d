import { fieldOf, HapaxError, isHapaxError } from '../../../base/index.ts'
import { isMissing } from './names.ts'

const CERTIFICATE = 'its certificate was not issued by an authority that is trusted here'
const SECURITY = 'a TLS connection could not be agreed on'
const CLOSED = 'the connection was closed before the response'
const UNREACHED = 'the host cannot be reached'
const UNRESOLVED = 'the name of the host could not be resolved'
const UNKNOWN_NAME = 'the name of the host has no address'

/** What the codes of Node.js, OpenSSL and c-ares mean for a delivery. Nothing about our own network: others may read it. */
const SENTENCES: Readonly<Record<string, string>> = {
  ENOTFOUND: UNKNOWN_NAME,
  ENODATA: UNKNOWN_NAME,
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: CLOSED,
  ECONNABORTED: CLOSED,
  EPIPE: CLOSED,
  ETIMEDOUT: UNREACHED,
  EHOSTUNREACH: UNREACHED,
  ENETUNREACH: UNREACHED,
  EADDRNOTAVAIL: UNREACHED,
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  DEPTH_ZERO_SELF_SIGNED_CERT: CERTIFICATE,
  SELF_SIGNED_CERT_IN_CHAIN: CERTIFICATE,
  UNABLE_TO_GET_ISSUER_CERT: CERTIFICATE,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: CERTIFICATE,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: CERTIFICATE,
  EPROTO: SECURITY,
}

/** An error of a delivery in one sentence. `reason` has the code that it came with. */
export function failureOf(error: unknown): HapaxError {
  if (isHapaxError(error)) return error
  const code = fieldOf(error, 'code')
  const reason = typeof code === 'string' ? code : 'unknown'
  return unavailable(isAboutName(error) && !isMissing(error) ? UNRESOLVED : sentenceOf(reason), reason)
}

/** A name server may refuse connections as well. */
function isAboutName(error: unknown): boolean {
  return /^(?:query|getaddrinfo)/.test(String(fieldOf(error, 'syscall')))
}

function sentenceOf(code: string): string {
  const known = SENTENCES[code]
  if (known !== undefined) return known
  if (code.startsWith('HPE_')) return 'the response is not HTTP'
  if (/^(?:ERR_SSL|ERR_TLS|CERT_)/.test(code)) return SECURITY
  return `the delivery failed with ${code}`
}

/** The error of an endpoint that gave no response. */
export function unavailable(what: string, reason?: string): HapaxError {
  return new HapaxError('endpoint-unavailable', what, { fields: reason === undefined ? {} : { reason } })
}
